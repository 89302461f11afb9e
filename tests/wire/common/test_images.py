"""Images as the wires carry them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import gif, jpeg, png, webp
from treadle.wire.common.images import decoded, encoded, media_type


@given(st.binary())
def test_what_is_encoded_comes_back(data: bytes) -> None:
    assert decoded(encoded(data)) == data


@pytest.mark.parametrize("text", ["a", "é", None, 7, ["aGk="]])
def test_what_is_not_base64_is_nothing(text: object) -> None:
    assert decoded(text) == b""


@pytest.mark.parametrize(("data", "kind"), [(png(), "png"), (jpeg(), "jpeg"), (gif(), "gif"), (webp(), "webp")])
def test_the_kind_of_an_image(data: bytes, kind: str) -> None:
    assert media_type(data) == f"image/{kind}"
