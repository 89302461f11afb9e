"""Who may send what. The rules themselves are tested in tests/wire/common/test_rpc.py."""

import pytest

from treadle.errors import LocalProtocolError
from treadle.wire.common.rpc import RpcCall, RpcNotice, RpcRefused
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
