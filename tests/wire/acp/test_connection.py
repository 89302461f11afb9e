"""Which side of the protocol may send what. The rules themselves are tested in tests/wire/common/test_rpc.py."""

import pytest

from treadle.errors import LocalProtocolError
from treadle.wire.acp.connection import AGENT_METHODS, CLIENT_METHODS, Connection
from treadle.wire.common.rpc import RpcCall


@pytest.mark.parametrize(("role", "foreign"), [("client", AGENT_METHODS), ("agent", CLIENT_METHODS)])
def test_neither_side_calls_what_belongs_to_the_other(role: str, foreign: frozenset[str]) -> None:
    connection = Connection(role)
    for method in foreign - {"initialize"}:
        with pytest.raises(LocalProtocolError):
            connection.send(RpcCall(id=1, method=method))


def test_the_sides_share_no_method() -> None:
    assert not AGENT_METHODS & CLIENT_METHODS
