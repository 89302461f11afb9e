"""The worker protocol's lines, and who may send what when."""

import json
from typing import Any

import pytest

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.worker import connection as worker
from treadle.wire.worker.connection import (
    BadLine,
    Connection,
    State,
    decode_request,
    decode_response,
    encode,
    encode_lines,
)
from treadle.wire.worker.messages import (
    CallMade,
    CancelRequest,
    ContentDelta,
    ErrorEnvelope,
    EventLine,
    Init,
    InitConfig,
    InitOk,
    Send,
    SendResult,
    Shutdown,
    StatusRequest,
    UnknownMessage,
)


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


INIT = Init(id="1", config=InitConfig(model="m", system_prompt="s", tools=()))

OK = InitOk(id="1", session_id="s1", protocol_version="0.2.0")


def result(id: str, error: str | None = None) -> SendResult:
    envelope = ErrorEnvelope(code=error, message=error, retryable=False) if error else None
    return SendResult(id=id, status="error" if error else "ok", tool_calls_made=(), iterations=0, error=envelope)


def opened(role: str) -> Connection:
    """An end that has seen a whole handshake and a send with id 2."""
    end = Connection(role)
    for sender, message in [("client", INIT), ("worker", OK), ("client", Send(id="2", message="hi"))]:
        if sender == role:
            end.send(message)
        else:
            assert end.receive(worker.encode(message)) == [message]
    return end


def test_requests_may_be_written_all_at_once() -> None:
    requests = [
        INIT,
        Send(id="2", message="a"),
        CancelRequest(id="3", target_id="2"),
        StatusRequest(id="4"),
        Shutdown(id="5"),
    ]
    assert Connection("worker").receive(b"".join(map(worker.encode, requests))) == requests


@pytest.mark.parametrize("request_", [Send(id="2", message="x"), StatusRequest(id="2")])
def test_what_comes_before_init_is_told_to_send_it_first(request_: Any) -> None:
    [error] = Connection("worker").receive(worker.encode(request_))
    assert isinstance(error, BadLine) and (error.id, error.message) == ("2", "Not initialized. Send 'init' first.")


def test_a_second_init_is_refused_and_the_session_goes_on() -> None:
    end = opened("worker")
    [error] = end.receive(worker.encode(INIT))
    assert isinstance(error, BadLine) and error.id == "1"
    assert end.state is State.READY
    end.send(result("2"))


@pytest.mark.parametrize(
    "answer",
    [
        InitOk(id="1", session_id="", error=ErrorEnvelope(code="x", message="x", retryable=False)),
        result("1", "protocol_error"),
    ],
)
def test_init_may_be_tried_again_after_it_failed(answer: Any) -> None:
    end = Connection("worker")
    end.receive(worker.encode(INIT))
    end.send(answer)
    assert end.state is State.NEW
    assert end.receive(worker.encode(INIT)) == [INIT]
    end.send(OK)
    assert end.state is State.READY


def test_a_bad_line_with_the_id_of_a_good_request_is_answered_beside_it() -> None:
    end = Connection("worker")
    [error, good] = end.receive(line(type="init", id="1") + b"\n" + worker.encode(INIT))
    assert isinstance(error, BadLine) and good == INIT
    end.send(worker.protocol_error(error))
    end.send(OK)
    assert end.state is State.READY


def test_a_long_conversation_leaves_nothing_behind() -> None:
    end = opened("worker")
    end.send(result("2"))
    for number in range(50):
        [error] = end.receive(line(type="dance", id=f"bad{number}") + b"\n")
        assert isinstance(error, BadLine)
        end.send(worker.protocol_error(error))
        end.receive(worker.encode(Send(id=f"s{number}", message="x")))
        end.send(EventLine(ContentDelta("a"), 0, f"s{number}"))
        end.send(result(f"s{number}"))
    assert not end._open and not end._bad


def test_an_init_written_ahead_twice_is_refused_once_the_first_has_succeeded() -> None:
    end = Connection("worker")
    second = Init(id="9", config=INIT.config)
    assert end.receive(worker.encode(INIT) + worker.encode(second)) == [INIT, second]
    end.send(OK)
    end.send(result("9", "protocol_error"))
    assert end.state is State.READY


def test_an_init_written_ahead_may_follow_one_that_fails() -> None:
    end = Connection("worker")
    end.receive(worker.encode(INIT) + worker.encode(Init(id="9", config=INIT.config)))
    end.send(result("1", "protocol_error"))
    assert end.state is State.OPENING
    end.send(InitOk(id="9", session_id="s"))
    assert end.state is State.READY


def test_a_worker_cannot_answer_a_send_twice_or_speak_of_it_afterwards() -> None:
    end = opened("worker")
    end.send(EventLine(ContentDelta("a"), 0, "2"))
    end.send(result("2"))
    for wrong in (result("2"), EventLine(ContentDelta("b"), 1, "2"), EventLine(ContentDelta("b"), 0, "2")):
        with pytest.raises(LocalProtocolError):
            end.send(wrong)


def test_a_worker_numbers_its_events_without_gaps_from_zero() -> None:
    end = opened("worker")
    with pytest.raises(LocalProtocolError):
        end.send(EventLine(ContentDelta("a"), 1, "2"))
    end.send(EventLine(ContentDelta("a"), 0, "2"))
    with pytest.raises(LocalProtocolError):
        end.send(EventLine(ContentDelta("b"), 2, "2"))
    end.send(EventLine(ContentDelta("b"), 1, "2"))


def test_sends_that_share_an_id_each_get_their_own_result() -> None:
    end = opened("worker")
    end.receive(worker.encode(Send(id="2", message="again")))
    end.send(EventLine(ContentDelta("a"), 0, "2"))
    end.send(result("2"))
    end.send(EventLine(ContentDelta("a"), 0, "2"))
    end.send(result("2"))
    with pytest.raises(LocalProtocolError, match="no result is due for request"):
        end.send(result("2"))


def test_a_client_refuses_a_result_that_is_not_its_own() -> None:
    end = opened("client")
    [error] = end.receive(worker.encode(result("99")))
    assert isinstance(error, BadLine) and error.id == "99"
    assert end.receive(worker.encode(result("2"))) == [result("2")]


def test_an_unknown_event_or_response_is_a_value_to_skip() -> None:
    end = opened("client")
    strange = line(type="event", event={"event": "brain_wave", "hz": 7}, event_seq=0, send_id="2", session_id="s")
    other = line(type="weather", id="9")
    [event, response] = end.receive(strange + b"\n" + other + b"\n")
    assert isinstance(event, EventLine) and event.event_seq == 0
    assert isinstance(event.event, UnknownMessage) and event.event.kind == "brain_wave"
    assert isinstance(response, UnknownMessage) and response.kind == "weather"


def events(*numbers: int, send: str = "2") -> list[EventLine]:
    return [EventLine(ContentDelta("a"), number, send) for number in numbers]


def test_events_sent_together_are_the_bytes_of_each_alone() -> None:
    one, together = opened("worker"), opened("worker")
    assert together.send_events(events(0, 1, 2)) == b"".join(one.send(event) for event in events(0, 1, 2))
    assert together.send_events(events(3)) == one.send(events(3)[0])


@pytest.mark.parametrize(
    "wrong",
    [events(1, 2), events(0, 2), [*events(0), *events(1, send="9")], events(0, send="9")],
    ids=["late start", "gap", "two sends", "no such send"],
)
def test_events_sent_together_must_follow_each_other_in_one_open_send(wrong: list[EventLine]) -> None:
    end = opened("worker")
    with pytest.raises(LocalProtocolError):
        end.send_events(wrong)
    end.send_events(events(0, 1))


def test_a_client_takes_the_numbers_of_events_as_they_come() -> None:
    end = opened("client")
    lines = events(0, 5, 6)
    assert end.receive(b"".join(map(worker.encode, lines))) == lines


def test_nobody_sends_what_the_protocol_does_not_name() -> None:
    with pytest.raises(LocalProtocolError, match="only what the protocol names"):
        opened("client").send(UnknownMessage("weather", b"{}"))


def test_after_shutdown_a_worker_only_answers() -> None:
    end = opened("worker")
    end.receive(worker.encode(Shutdown(id="3")))
    assert str(end.state) == "closing"
    [refused] = end.receive(worker.encode(Send(id="4", message="more")))
    assert isinstance(refused, BadLine) and refused.message == "Shutting down."


def test_an_input_that_ends_inside_a_line_is_owed_an_answer() -> None:
    end = Connection("worker")
    assert end.end() == []
    end.receive(b'{"type":"init","id":"7"')
    with pytest.raises(BadLine, match="ended inside a line"):
        end.end()


def test_a_last_line_without_its_newline_counts() -> None:
    end = Connection("worker")
    assert end.receive(worker.encode(INIT)[:-1]) == []
    assert end.end() == [INIT]
