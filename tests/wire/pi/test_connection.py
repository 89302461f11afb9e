"""The two message shapes of pi's RPC mode, who sends which, and what they mean."""

import json
from typing import Any

import pytest

from treadle.errors import InvalidJson, LocalProtocolError, Violation
from treadle.wire.pi.connection import Command, Connection, Piece, PiMessage, error_info, text_of, thinking_of, usage


def test_a_command_goes_with_the_fields_that_it_has() -> None:
    prompt = Command(type="prompt", id="1", message="go")
    line = Connection("host").send(prompt)
    assert json.loads(line) == {"type": "prompt", "id": "1", "message": "go"}
    assert Connection("agent").receive(line) == [prompt]


@pytest.mark.parametrize(
    ("sender", "message", "kind"),
    [
        ("host", Command(type="prompt"), "command"),
        ("host", Command(type="extension_ui_response", id="u", value="yes"), "answer"),
        ("agent", PiMessage(type="response", command="prompt", success=True), "response"),
        ("agent", PiMessage(type="extension_ui_request", id="u"), "question"),
        ("agent", PiMessage(type="message_update", assistantMessageEvent=Piece(type="text_delta", delta="x")), "event"),
        ("agent", PiMessage(type="something_later"), "event"),
    ],
)
def test_the_type_tells_what_a_message_is(sender: str, message: Command | PiMessage, kind: str) -> None:
    assert Connection(sender).kind(sender, message) == kind
    other = "agent" if sender == "host" else "host"
    assert Connection(other).receive(Connection(sender).send(message)) == [message]
    with pytest.raises(LocalProtocolError):
        Connection(other).send(message)


def test_a_line_of_the_wrong_shape_and_one_that_is_not_json_are_told_apart() -> None:
    deep = b'{"type":"agent_end","data":' + b"[" * 5000 + b"\n"
    wrong, bad, cut, good = Connection("host").receive(b'{"type":7}\n\xff\n' + deep + b'{"type":"agent_end","new":1}\n')
    assert isinstance(wrong, Violation) and isinstance(bad, InvalidJson) and isinstance(cut, InvalidJson)
    assert good == PiMessage(type="agent_end")


def test_a_tool_that_does_not_say_so_has_not_failed() -> None:
    assert not PiMessage(type="tool_execution_end").isError


REPLY = {
    "model": "m",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    "usage": {"input": 130, "output": 25, "cacheRead": 50, "cacheWrite": 5, "cost": {"total": 0.25}},
}


def test_a_reply_has_text_thoughts_and_usage() -> None:
    assert (text_of(REPLY), thinking_of(REPLY)) == ("ab", "hm")
    used = usage(REPLY)
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens) == (130, 25, 50, 5)
    assert used.cost_usd == 0.25
    odd = usage({"usage": {"input": 1, "output": True}})
    assert odd is not None and odd.output_tokens == 0


@pytest.mark.parametrize("cost", [None, {}, {"total": 0}, {"total": "free"}, {"total": True}])
def test_a_price_that_it_does_not_know_is_unknown_and_not_free(cost: Any) -> None:
    used = usage({"usage": {"input": 1, "output": 1, "cost": cost}})
    assert used is not None and used.cost_usd is None


@pytest.mark.parametrize("told", [{}, {"usage": None}, {"usage": {"input": 0, "output": 0, "cost": {"total": 0}}}])
def test_a_reply_that_came_to_nothing_used_nothing(told: dict[str, Any]) -> None:
    assert usage(told) is None


@pytest.mark.parametrize("told", [None, {}, {"content": None}, {"content": 7}])
def test_what_has_no_content_has_no_text(told: Any) -> None:
    assert text_of(told if not isinstance(told, dict) or told.get("content") != 7 else {}) == ""


@pytest.mark.parametrize(
    ("message", "code", "retryable"),
    [
        ("401 no", "auth_failed", False),
        ("429 slow", "rate_limited", True),
        ("529 {}", "provider_error", True),
        ("fetch failed", "provider_error", False),
        ("500 down", "provider_error", True),
        ("499 gone", "provider_error", False),
        ("403 no", "auth_failed", False),
    ],
)
def test_the_status_is_the_first_number(message: str, code: str, retryable: bool) -> None:
    found = error_info(message)
    assert (found.code, found.retryable, found.message) == (code, retryable, message)
    assert found.details == {"status": int(message[:3]) if message[0].isdigit() else None}


def test_what_is_neither_text_nor_a_thought_is_left_out() -> None:
    mixed = {"content": [{"type": "image", "text": "no"}, "odd", {"type": "text"}, {"type": "text", "text": "yes"}]}
    assert text_of(mixed) == "yes" and text_of({"content": "plain"}) == "plain"
    thoughts = {"content": ["odd", {"type": "text", "thinking": "no"}, {"type": "thinking"}]}
    assert thinking_of(thoughts) == "" and thinking_of(None) == "" and thinking_of({}) == ""


def test_a_reply_of_which_only_one_side_was_counted_was_used() -> None:
    sent, written = usage({"usage": {"input": 1}}), usage({"usage": {"output": 1}, "model": None})
    assert sent is not None and sent.prompt_tokens == 1 and sent.model == ""
    assert written is not None and written.output_tokens == 1
