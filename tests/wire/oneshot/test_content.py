"""The content of a `user` record: a text, images, or a clear refusal."""

from typing import Any

import pytest

from treadle.errors import Unsupported
from treadle.wire.oneshot.content import prompt_of

TEXT = {"type": "text", "text": "look"}
IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
DOCUMENT = {"type": "document", "source": {"type": "text", "data": "words"}}


def test_texts_are_lines_and_images_keep_their_order() -> None:
    assert prompt_of("plain") == ("plain", ()) and prompt_of(None) == ("", ())
    assert prompt_of([TEXT, IMAGE, TEXT]) == ("look\nlook", (b"hi",))
    assert prompt_of([DOCUMENT]) == ("<document>\nwords\n</document>", ())


@pytest.mark.parametrize("block", [7, {}, {"type": "text"}, {"type": "image", "source": 7}, {"type": "document"}])
def test_what_is_neither_is_refused(block: Any) -> None:
    with pytest.raises(Unsupported, match="a prompt"):
        prompt_of([TEXT, block])
