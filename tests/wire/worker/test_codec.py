import json
from typing import Any

import pytest

from treadle.errors import RemoteProtocolError
from treadle.wire.worker import connection as worker
from treadle.wire.worker.connection import BadLine, decode_request, decode_response, encode, encode_lines
from treadle.wire.worker.messages import CallMade, ContentDelta, ErrorEnvelope, EventLine, SendResult


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("data", "id", "message"),
    [
        (b"", "unknown", "Invalid JSON"),
        (b"   ", "unknown", "Invalid JSON"),
        (b"{not json", "unknown", "Invalid JSON"),
        (b'{"type":"send","id":"7","message":"cut', "7", "Invalid JSON"),
        (b'{"type":"send","message":"a \\"id\\" b","id":"7",,}', "7", "Invalid JSON"),
        (b'{"type":"init","config":{"id":"9"},"id":"7"', "unknown", "Invalid JSON"),
        (b'{"id":"\\ud83d7","type":', "\ufffd7", "Invalid JSON"),
        (b"[1,2]", "unknown", "Expected JSON object"),
        (b'"send"', "unknown", "Expected JSON object"),
        (b"null", "unknown", "Expected JSON object"),
        (b'{"id":"7"}', "7", "Missing 'type' field"),
        (b'{"type":5,"id":"7"}', "7", "Missing 'type' field"),
        (b'{"type":"send","message":"x"}', "unknown", "Missing 'id' field"),
        (b'{"type":"send","id":7,"message":"x"}', "unknown", "Missing 'id' field"),
        (b'{"type":"dance","id":"7"}', "7", "Unknown request type: 'dance'"),
        (b'{"type":"send","id":"7"}', "7", "Invalid send: Object missing required field `message`"),
        (b'{"type":"send","id":"7","message":5}', "7", "Invalid send: Expected `str`, got `int` - at `$.message`"),
        (b'{"type":"cancel","id":"7"}', "7", "Invalid cancel: Object missing required field `target_id`"),
        (b'{"type":"init","id":"7","config":{}}', "7", "Invalid init: Object missing required field `model`"),
        (b'{"type":"send","id":"7","message":"\xff"}', "7", "Invalid UTF-8"),
        (b'{"type":"status","id":"7","later":"\xff"}', "7", "Invalid UTF-8"),
        (b'{"type":"send","id":"7","message":' + b"[" * 100_000, "7", "Invalid JSON"),
        (b'{"type":"init","id":"7","config":' + b"[" * 400 + b"]" * 400 + b"}", "7", "Invalid init: Expected `object`"),
    ],
)
def test_a_bad_request_says_what_is_wrong_and_whose_it_is(data: bytes, id: str, message: str) -> None:
    error = decode_request(data)
    assert isinstance(error, BadLine)
    assert error.id == id
    assert error.message.startswith(message)
    answer = worker.protocol_error(error)
    assert (answer.id, answer.status) == (id, "error")
    assert answer.error is not None and answer.error.code == "protocol_error"


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"",
        b"[]",
        line(id="1"),
        line(type="result", id="2"),
        line(type="event", event={"event": "content_delta"}, event_seq=0, send_id="2"),
        line(type="event", event={"event": "heartbeat", "duration_ms": 1.5}, event_seq=0, send_id="2"),
        line(type="event", event=5, event_seq=0, send_id="2"),
        line(type="event", event={}, event_seq=0, send_id="2"),
        b'{"type":"event","event":' + b'{"a":' * 100_000,
    ],
)
def test_a_malformed_response_is_the_workers_fault(data: bytes) -> None:
    assert isinstance(decode_response(data), RemoteProtocolError)


def test_text_that_is_not_unicode_is_mended_and_sent() -> None:
    call = CallMade("bash", {"command": "cat \udcff", "more": ["\udcff", 1]})
    data = encode(SendResult(id="2", status="ok", tool_calls_made=(call,), iterations=1, response="a\ud800b"))
    sent = json.loads(data)
    assert sent["response"] == "a\ufffdb"
    assert sent["tool_calls_made"] == [{"name": "bash", "args": {"command": "cat \ufffd", "more": ["\ufffd", 1]}}]


def test_half_an_emoji_is_a_replacement_character_in_either_direction() -> None:
    asked = decode_request(b'{"type":"send","id":"7","message":"a \\ud83d b \\ud83d\\ude00 c \\\\ud83d"}')
    assert (asked.id, asked.message) == ("7", "a \ufffd b \U0001f600 c \\ud83d")
    told = decode_response(
        line(type="event", event={"event": "content_delta", "text": "x"}, event_seq=0, send_id="2").replace(
            b'"x"', b'"\\ude00x"'
        )
    )
    assert told.event.text == "\ufffdx"


def test_fields_that_may_be_absent_are_left_out_and_the_others_are_always_there() -> None:
    envelope = ErrorEnvelope(code="cancelled", message="cancelled", retryable=False)
    cancelled = SendResult(id="2", status="error", tool_calls_made=(), iterations=0, error=envelope)
    assert json.loads(encode(cancelled)) == {
        "type": "result",
        "id": "2",
        "status": "error",
        "tool_calls_made": [],
        "iterations": 0,
        "error": {"code": "cancelled", "message": "cancelled", "retryable": False},
    }


@pytest.mark.parametrize("text", ["plain", "lone \udcff", "line\u2028separator\nnewline", "\x00"])
def test_lines_written_together_are_the_lines_written_alone(text: str) -> None:
    lines = [EventLine(ContentDelta(text), number, "2") for number in range(3)]
    assert encode_lines(lines) == b"".join(map(encode, lines))
    assert encode_lines(lines).count(b"\n") == 3
