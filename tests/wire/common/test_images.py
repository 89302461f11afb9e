"""Images as the wires carry them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import gif, jpeg, png, webp
from treadle.wire.common.images import data_url, decoded, encoded, media_type


@given(st.binary())
def test_what_is_encoded_comes_back(data: bytes) -> None:
    assert decoded(encoded(data)) == data and "\n" not in encoded(data)


@pytest.mark.parametrize("text", ["a", "é", None, 7, ["aGk="]])
def test_what_is_not_base64_is_nothing(text: object) -> None:
    assert decoded(text) == b""


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (jpeg(), "image/jpeg"),
        (gif(), "image/gif"),
        (webp(), "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
    ],
)
def test_the_kind_of_an_image_or_document(data: bytes, kind: str) -> None:
    assert media_type(data) == kind and data_url(data) == f"data:{kind};base64,{encoded(data)}"
