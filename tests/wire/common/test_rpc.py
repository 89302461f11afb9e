"""JSON-RPC 2.0: a server's replies, and two ends that both make calls."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import InvalidJson, LineTooLong, LocalProtocolError, RemoteProtocolError, Violation
from treadle.wire.acp.connection import Connection
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsonrpc import Fault, reply
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused, as_json, read_line, read_message


def handle(method: str, params: dict[str, Any]) -> Any:
    if method == "echo":
        return params
    if method == "fault":
        raise Fault(-32000, "no", {"why": "because"})
    if method == "crash":
        raise RuntimeError("oh")
    if method == "unwritable":
        return {"a": object()}
    raise Fault(-32601, f"unknown method: {method}")


def said(message: Any) -> Any:
    text = reply(message if isinstance(message, bytes) else json.dumps(message).encode(), handle)
    return None if text is None else json.loads(text)


def error(message: Any) -> tuple[Any, int]:
    answer = said(message)
    assert set(answer) == {"jsonrpc", "id", "error"} and answer["jsonrpc"] == "2.0"
    return answer["id"], answer["error"]["code"]


def call(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **fields}


@pytest.mark.parametrize("name", [1, 0, -3, 1.5, "a", "", None])
def test_a_call_is_answered_with_its_id(name: Any) -> None:
    assert said(call(id=name, method="echo", params={"a": [1]})) == call(id=name, result={"a": [1]})


def test_params_may_be_left_out_or_null() -> None:
    assert said(call(id=1, method="echo"))["result"] == {}
    assert said(call(id=1, method="echo", params=None))["result"] == {}


@pytest.mark.parametrize("method", ["echo", "fault", "crash", "nothing"])
def test_a_notification_is_never_answered(method: str) -> None:
    assert said(call(method=method)) is None


def test_an_answer_to_nothing_is_ignored() -> None:
    assert said(call(id=1, result={})) is None
    assert said(call(id=1, error={"code": 1, "message": ""})) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"{", (None, -32700)),
        (b"\xff", (None, -32700)),
        (b"[1", (None, -32700)),
        ([], (None, -32600)),
        (1, (None, -32600)),
        ("text", (None, -32600)),
        ({"id": 1, "method": "echo"}, (None, -32600)),
        ({"jsonrpc": "1.0", "id": 1, "method": "echo"}, (None, -32600)),
        (call(id=[1], method="echo"), (None, -32600)),
        (call(id=True, method="echo"), (None, -32600)),
        (call(id=7), (7, -32600)),
        (call(id=7, method=3), (7, -32600)),
        (call(id=7, method="echo", params=[1]), (7, -32602)),
        (call(id=7, method="nothing"), (7, -32601)),
        (call(id=7, method="crash"), (7, -32603)),
        (call(id=7, method="unwritable"), (7, -32603)),
        (call(id=7, method="fault"), (7, -32000)),
    ],
)
def test_what_is_wrong_has_the_code_of_the_specification(message: Any, expected: tuple[Any, int]) -> None:
    assert error(message) == expected


def test_a_fault_carries_its_data() -> None:
    assert said(call(id=1, method="fault"))["error"] == {"code": -32000, "message": "no", "data": {"why": "because"}}


def test_a_batch_is_answered_as_a_batch_without_its_notifications() -> None:
    batch = [call(id=1, method="echo"), call(method="echo"), 1, call(id="b", method="nothing")]
    answers = said(batch)
    assert [answer["id"] for answer in answers] == [1, None, "b"]
    assert said([call(method="echo"), call(method="echo")]) is None


def test_a_message_that_was_too_long_is_a_parse_error() -> None:
    text = reply(LineTooLong("a line is longer than 16 bytes"), handle)
    assert text is not None and json.loads(text)["error"]["code"] == -32700


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params"]), x),
    ).map(lambda value: json.dumps(value).encode())
)
def test_anything_at_all_gets_a_well_formed_reply_or_none(data: bytes) -> None:
    text = reply(data, handle)
    if text is not None:
        answers = json.loads(text)
        for answer in answers if isinstance(answers, list) else [answers]:
            assert answer["jsonrpc"] == "2.0" and ("result" in answer) != ("error" in answer) and "id" in answer


def ready(role: str) -> Connection:
    """One end of a conversation that has begun."""
    connection = Connection(role)
    hello, welcome = RpcCall(id=1, method="initialize"), Returned(id=1, result={})
    if role == "client":
        connection.send(hello)
        connection.receive(json.dumps(as_json(welcome)).encode() + b"\n")
    else:
        connection.receive(json.dumps(as_json(hello)).encode() + b"\n")
        connection.send(welcome)
    assert connection.state == "ready"
    return connection


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id":1,"method":"m"}', RpcCall(id=1, method="m")),
        ('{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}', RpcCall(id="a", method="m", params={"x": 1})),
        ('{"method":"m","params":null}', RpcNotice(method="m")),
        ('{"id":0,"result":null}', Returned(id=0)),
        ('{"id":0,"error":{"code":401,"message":"no","data":1}}', RpcRefused(id=0, code=401, message="no", data=1)),
        ('{"id":null,"error":"odd"}', RpcRefused(id=None, code=-32603, message="odd")),
        ('{"id":0,"error":{}}', RpcRefused(id=0, code=-32603, message="it gave no reason")),
    ],
)
def test_a_line_is_read_as_what_it_means(line: str, message: Any) -> None:
    assert read_line(line.encode()) == [message]


def test_blank_lines_are_nothing_and_a_batch_is_several_messages() -> None:
    assert read_line(b" \r") == []
    assert read_line(b'[{"method":"a"},{"method":"b"}]') == [RpcNotice(method="a"), RpcNotice(method="b")]


def test_deep_nesting_and_bytes_that_are_no_text_are_errors() -> None:
    assert isinstance(read_line(b"[" * 100_000)[0], InvalidJson)
    assert isinstance(read_line(b'{"method":"\xff"}')[0], InvalidJson)


def test_a_line_over_the_cap_stays_the_error_it_was() -> None:
    long = LineSplitter(4).feed(b"123456\n")[0]
    assert isinstance(long, LineTooLong) and read_line(long) == [long]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_gives_a_message_or_an_error(value: Any) -> None:
    assert isinstance(read_message(value), RpcCall | RpcNotice | Returned | RpcRefused | RemoteProtocolError)


def test_nothing_is_called_before_the_greeting() -> None:
    client, agent = Connection("client"), Connection("agent")
    with pytest.raises(LocalProtocolError, match="while new"):
        client.send(RpcCall(id=1, method="session/new"))
    error = agent.receive(b'{"id":1,"method":"session/new"}\n')[0]
    assert isinstance(error, Violation) and error.details == {"id": 1, "code": -32600}
    assert agent.state == "new"


def test_nothing_else_is_called_while_the_greeting_is_open() -> None:
    client = Connection("client")
    client.send(RpcCall(id=1, method="initialize"))
    with pytest.raises(LocalProtocolError, match="before initialize is answered"):
        client.send(RpcCall(id=2, method="session/new"))


def test_a_refused_greeting_may_be_tried_again() -> None:
    client = Connection("client")
    client.send(RpcCall(id=1, method="initialize"))
    client.receive(b'{"id":1,"error":{"code":1,"message":"no"}}\n')
    assert client.state == "new"
    client.send(RpcCall(id=2, method="initialize"))


def test_the_refusal_of_something_else_does_not_end_the_greeting() -> None:
    agent = Connection("agent")
    agent.receive(b'{"id":1,"method":"session/new"}\n{"id":2,"method":"initialize"}\n')
    agent.send(RpcRefused(id=1, code=-32600, message="not yet"))
    agent.send(RpcRefused(id=None, code=-32700, message="not JSON"))
    agent.send(Returned(id=2, result={}))
    assert agent.state == "ready"


def test_we_say_only_what_our_role_may_say_and_hear_anything() -> None:
    client = ready("client")
    with pytest.raises(LocalProtocolError, match="does not call"):
        client.send(RpcCall(id=5, method="session/request_permission"))
    client.send(RpcNotice(method="_ours/thing"))
    assert client.receive(b'{"id":9,"method":"craft/drainMidTurnQueue"}\n') == [
        RpcCall(id=9, method="craft/drainMidTurnQueue")
    ]


def test_an_answer_to_what_nobody_asked_is_an_error_and_changes_nothing() -> None:
    client = ready("client")
    assert isinstance(client.receive(b'{"id":77,"result":1}\n')[0], Violation)
    with pytest.raises(LocalProtocolError, match="no call"):
        client.send(Returned(id=77))


def test_an_id_that_is_open_is_not_used_twice() -> None:
    client = ready("client")
    client.send(RpcCall(id=2, method="session/new"))
    with pytest.raises(LocalProtocolError, match="in use"):
        client.send(RpcCall(id=2, method="session/new"))
    client.receive(b'{"id":2,"result":{}}\n')
    client.send(RpcCall(id=2, method="session/new"))


def test_a_second_greeting_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="while ready"):
        ready("client").send(RpcCall(id=2, method="initialize"))


def test_a_last_line_without_its_newline_counts_when_it_is_whole() -> None:
    client = ready("client")
    client.receive(b'{"method":"session/update"}')
    assert client.end() == [RpcNotice(method="session/update")]
    client.receive(b'{"method":')
    with pytest.raises(InvalidJson):
        client.end()


def test_what_is_wrong_with_a_message_is_said_with_the_code_that_answers_it() -> None:
    for value, words, details in (
        (7, "not an object", None),
        ({"id": [], "method": "m"}, "neither a number nor a text", None),
        ({"id": 1.5, "method": "m"}, "neither a number nor a text", None),
        ({"id": True, "method": "m"}, "neither a number nor a text", None),
        ({"id": 1}, "neither a call nor an answer", {"id": 1, "code": -32600}),
        ({"id": 1, "method": 7}, "neither a call nor an answer", {"id": 1, "code": -32600}),
        ({"id": 1, "method": 7, "result": 1}, "neither a call nor an answer", {"id": 1, "code": -32600}),
        ({"id": 1, "method": "m", "params": [1]}, "the params of m are not an object", {"id": 1, "code": -32602}),
        ({"result": 1}, "an answer has no id", None),
    ):
        found = read_message(value)
        assert isinstance(found, Violation) and words in found.message and found.details == details, value
    assert isinstance(read_line(b"[]1")[0], InvalidJson)
    (bad,) = read_line(b"{oh")
    assert isinstance(bad, InvalidJson) and bad.details == {"line": "{oh"}
    assert read_message({"id": 1, "error": {"code": "x", "message": 7}}) == RpcRefused(
        id=1, code=-32603, message="it gave no reason"
    )
    assert read_message({"id": 1, "error": None, "result": 5}) == Returned(id=1, result=5)


def test_an_answer_settles_the_call_of_the_other_end_only() -> None:
    agent = ready("agent")
    agent.send(RpcCall(id=7, method="fs/read_text_file"))
    assert agent.receive(b'{"id":7,"method":"session/new"}\n') == [RpcCall(id=7, method="session/new")]
    assert agent.open == {"client": {7}, "agent": {7}}
    agent.send(RpcRefused(id=7, code=1, message="no"))
    assert agent.open == {"client": set(), "agent": {7}}
    assert agent.receive(b'{"id":7,"error":{"code":1,"message":"no"}}\n') != [] and agent.open["agent"] == set()
    assert agent.receive(b'{"id":7,"error":{"code":1,"message":"again"}}\n') == [
        RpcRefused(id=7, code=1, message="again")
    ]
    line = json.loads(agent.encode(RpcRefused(id=1, code=1, message="no")))
    assert line == {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}
    assert as_json(RpcRefused(id=1, code=1, message="no", data=0))["error"]["data"] == 0


def test_an_agent_may_call_while_it_is_greeted_and_a_notice_may_come_first() -> None:
    agent = Connection("agent")
    assert agent.receive(b'{"method":"session/cancel"}\n') == [RpcNotice(method="session/cancel")]
    agent.receive(b'{"id":1,"method":"initialize"}\n')
    assert agent.send(RpcCall(id=1, method="fs/read_text_file")) and agent.state == "greeting"
    again = agent.receive(b'{"id":1,"method":"initialize"}\n')
    assert isinstance(again[0], Violation)
    with pytest.raises(LocalProtocolError, match="an? agent does not call session/new"):
        ready("agent").send(RpcCall(id=9, method="session/new"))
