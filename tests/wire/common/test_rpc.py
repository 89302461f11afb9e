"""JSON-RPC between two ends that both make calls."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import InvalidJson, LineTooLong, LocalProtocolError, RemoteProtocolError, Violation
from treadle.wire.acp.connection import Connection
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused, as_json, read_line, read_message


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


@pytest.mark.parametrize(
    "line", ["[]1", "1", '{"id":true,"method":"m"}', '{"id":1}', '{"id":1,"method":"m","params":[1]}', '{"result":1}']
)
def test_what_makes_no_sense_is_an_error_in_its_place(line: str) -> None:
    assert isinstance(read_line(line.encode())[0], RemoteProtocolError)


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
        ({"id": 1, "method": 7}, "neither a call nor an answer", {"id": 1, "code": -32600}),
        ({"id": 1, "method": 7, "result": 1}, "neither a call nor an answer", {"id": 1, "code": -32600}),
        ({"id": 1, "method": "m", "params": [1]}, "the params of m are not an object", {"id": 1, "code": -32602}),
        ({"result": 1}, "an answer has no id", None),
    ):
        found = read_message(value)
        assert isinstance(found, Violation) and words in found.message and found.details == details, value
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
