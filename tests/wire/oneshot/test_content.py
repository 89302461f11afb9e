"""The content of a `user` record: a text, images, or a clear refusal."""

from typing import Any

import pytest

from treadle.errors import Unsupported
from treadle.wire.oneshot.content import Content, prompt_of

TEXT = {"type": "text", "text": "look"}
IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
DOCUMENT = {"type": "document", "source": {"type": "text", "data": "words"}}


def test_texts_are_lines_and_images_keep_their_order() -> None:
    assert prompt_of("plain") == Content("plain") and prompt_of(None) == Content("")
    assert prompt_of([TEXT, IMAGE, TEXT]) == Content("look\nlook", (b"hi",))
    assert prompt_of([DOCUMENT]) == Content("<document>\nwords\n</document>")


def test_a_pdf_is_a_document_and_any_other_kind_is_not() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
    assert prompt_of([TEXT, {"type": "document", "source": source}]) == Content("look", documents=(b"hi",))
    with pytest.raises(Unsupported, match="document .application/msword."):
        prompt_of([{"type": "document", "source": {**source, "media_type": "application/msword"}}])


@pytest.mark.parametrize("block", [7, {}, {"type": "text"}, {"type": "image", "source": 7}, {"type": "document"}])
def test_what_is_neither_is_refused(block: Any) -> None:
    with pytest.raises(Unsupported, match="a prompt"):
        prompt_of([TEXT, block])
