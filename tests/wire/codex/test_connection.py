"""Which side of the app-server's protocol may call what. The rules themselves are tested in common/test_rpc.py."""

import json

import pytest

from treadle.errors import LocalProtocolError
from treadle.wire.codex.connection import HOST_METHODS, SERVER_METHODS, Connection
from treadle.wire.common.rpc import RpcCall, RpcNotice


@pytest.mark.parametrize(("role", "foreign"), [("host", SERVER_METHODS), ("server", HOST_METHODS)])
def test_neither_side_calls_what_belongs_to_the_other(role: str, foreign: frozenset[str]) -> None:
    for method in foreign:
        with pytest.raises(LocalProtocolError):
            Connection(role).send(RpcCall(id=1, method=method))


def test_the_sides_share_no_method() -> None:
    assert not HOST_METHODS & SERVER_METHODS


def test_lines_go_without_the_version_of_json_rpc_and_are_read_without_it() -> None:
    call = RpcCall(id=1, method="initialize", params={"clientInfo": {"name": "treadle"}})
    line = Connection("host").send(call)
    assert json.loads(line) == {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "treadle"}}}
    assert Connection("server").receive(line) == [call]


def test_a_method_of_a_later_server_is_read() -> None:
    notice = RpcNotice(method="item/dreamed", params={"of": "sheep"})
    assert Connection("host").receive(b'{"method":"item/dreamed","params":{"of":"sheep"}}\n') == [notice]
