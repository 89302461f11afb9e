"""Who may send what. The rules themselves are tested in tests/wire/common/test_rpc.py."""

import pytest

from treadle.errors import LocalProtocolError
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused
from treadle.wire.mcp.connection import Connection


def test_a_client_may_look_around_before_it_greets() -> None:
    server = Connection("server")
    [asked] = server.receive(b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}\n')
    assert isinstance(asked, RpcCall)
    server.send(RpcRefused(id=1, code=-32601, message="unknown"))
    server.receive(b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}\n')
    assert server.state == "greeting"


def test_a_server_does_not_call_what_is_a_clients_to_call() -> None:
    server = Connection("server")
    with pytest.raises(LocalProtocolError):
        server.send(RpcNotice(method="notifications/initialized"))


def test_either_end_says_its_own_methods_and_answers_those_of_the_other() -> None:
    client, server = Connection("client"), Connection("server")
    hello = client.send(RpcCall(id=1, method="initialize"))
    server.receive(hello)
    client.receive(server.send(Returned(id=1, result={})))
    assert client.state == server.state == "ready"
    asked = server.send(RpcCall(id=1, method="elicitation/create"))
    assert client.receive(asked) == [RpcCall(id=1, method="elicitation/create")]
    assert server.receive(client.send(Returned(id=1, result={}))) == [Returned(id=1, result={})]
    with pytest.raises(LocalProtocolError):
        client.send(RpcCall(id=2, method="elicitation/create"))
    early = Connection("client")
    early.send(RpcCall(id=1, method="tools/list"))
    assert early.receive(b'{"id":1,"result":{"tools":[]}}\n') == [Returned(id=1, result={"tools": []})]
    assert early.state == "new"
