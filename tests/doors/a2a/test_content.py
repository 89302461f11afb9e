"""A client's message as a prompt: what is passed on, and what is refused instead of being left out."""

import pytest

from treadle.doors.a2a.door import prompt_of
from treadle.wire.a2a.messages import CONTENT_TYPE_NOT_SUPPORTED, A2aMessage, A2aPart
from treadle.wire.common.jsonrpc import Fault

PICTURE = A2aPart(raw=b"png", media_type="image/png")


def message(*parts: A2aPart) -> A2aMessage:
    return A2aMessage(id="m", role="user", parts=parts)


def test_texts_data_and_files_of_text_are_one_prompt_word_for_word() -> None:
    notes = A2aPart(raw=b"x = 1", filename="a.toml", media_type="application/toml")
    made = prompt_of(message(A2aPart(text="/quit @file"), A2aPart(data={"a": 1}), notes), images=False)
    assert made.text == '/quit @file\n\n{"a":1}\n\na.toml:\nx = 1'
    assert made.verbatim and made.images == ()


def test_a_picture_goes_only_to_an_agent_that_takes_pictures() -> None:
    made = prompt_of(message(PICTURE), images=True)
    assert (made.text, made.images) == ("", (b"png",))
    with pytest.raises(Fault, match="takes no images") as refused:
        prompt_of(message(A2aPart(text="look"), PICTURE), images=False)
    assert refused.value.code == CONTENT_TYPE_NOT_SUPPORTED


def test_files_of_text_come_with_their_names_and_others_say_why_not() -> None:
    plain = A2aPart(raw=b"hi", media_type="text/x-any")
    assert prompt_of(message(plain, A2aPart(text=""), PICTURE), images=True).text == "hi"
    for part, why in (
        (A2aPart(raw=b"x"), "of the type 'unknown'"),
        (A2aPart(raw=b"\xff", media_type="text/plain", filename="t"), "t is not text in UTF-8"),
        (A2aPart(raw=b"\xff", media_type="application/json"), "a file is not text"),
        (A2aPart(url="http://x"), "no file is fetched from an address"),
    ):
        with pytest.raises(Fault, match=why):
            prompt_of(message(part), images=True)
