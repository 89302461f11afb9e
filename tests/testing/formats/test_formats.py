"""The four formats side by side: what they ask, and that their streams and documents say the same."""

import json
from typing import Any

import pytest

from treadle.agent.providers.script import Cue, parse
from treadle.testing.formats import Play, anthropic, chat, gemini, halves, responses, text_of

EVERY = [chat, responses, anthropic, gemini]
FULL = parse("reply=[{text='a b', thinking='c d', usage={input=1}, call=[{name='x', arguments='{bad'}, {name='y'}]}]")


def play(toml: str | None = None) -> Play:
    return Play(reply=(parse(toml) if toml else FULL).reply[0], model="\ufffd?", turn=1, id="1")


@pytest.mark.parametrize("form", EVERY)
def test_every_event_is_a_block_of_json(form: Any) -> None:
    for event in form.events(play()):
        assert event.endswith(b"\n\n") and event.count(b"\n\n") == 1
        data = event.split(b"data: ", 1)[1].strip()
        assert data == b"[DONE]" or isinstance(json.loads(data), dict)


@pytest.mark.parametrize("form", EVERY)
def test_the_document_is_json_and_names_every_call(form: Any) -> None:
    document = json.dumps(form.whole(play()))
    assert all(name in document for name in ("call_1_0", "call_1_1", "c d", "a b"))


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize("finish", ["stop", "length", "refusal", "other"])
def test_every_reason_for_the_end_can_be_said(form: Any, finish: str) -> None:
    assert form.events(play(f"reply=[{{text='x', finish='{finish}'}}]")) and form.whole(play())


def test_what_is_asked_is_found_in_every_format() -> None:
    expected = Cue(last="newest", turn=2, system="sys")
    turns = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "hm"}]
    newest = {"role": "user", "content": [{"type": "text", "text": "newest"}]}
    assert chat.asked({"messages": [{"role": "system", "content": "sys"}, *turns, newest]}) == expected
    assert anthropic.asked({"system": [{"type": "text", "text": "sys"}], "messages": [*turns, newest]}) == expected
    said = [{"type": "reasoning"}, {"role": "assistant", "content": "hm"}, {"type": "function_call"}]
    assert responses.asked({"instructions": "sys", "input": [turns[0], *said, newest]}).turn == 2
    assert responses.asked({"instructions": "sys", "input": [turns[0], *said, newest]}).last == "newest"


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize("body", [{}, {"messages": None, "input": None}, {"messages": [{}, 5], "input": ["text"]}])
def test_a_request_with_little_in_it_is_understood(form: Any, body: dict[str, Any]) -> None:
    assert form.asked(body).turn == 1


def test_arguments_are_streamed_in_at_least_two_pieces() -> None:
    assert len(halves('{"a":1}')) == 2 and "".join(halves("x" * 100)) == "x" * 100
    assert halves("") == []


def test_text_is_found_in_parts_of_parts() -> None:
    assert text_of([{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}, {"text": "b"}, 5]) == "a\nb"
