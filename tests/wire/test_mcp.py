"""Who may send what, and names of tools that every model service accepts."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import LocalProtocolError
from treadle.wire.common.jsonrpc import Fault
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused
from treadle.wire.mcp.connection import (
    NAME_CAP,
    Connection,
    Greeting,
    ResultPart,
    ServerResult,
    ServerTool,
    ToolPage,
    server_prefix,
    tool_name,
)
from treadle.wire.mcp.revisions import dispatch


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


def test_each_method_of_a_server_of_tools_has_its_answer() -> None:
    def asked(method: str) -> Any:
        return dispatch(
            method,
            {"a": 1},
            initialize=lambda given: ("hello", given),
            tools=lambda: [{"name": "t"}],
            call=lambda given: ("called", given),
        )

    assert asked("initialize") == ("hello", {"a": 1}) and asked("tools/call") == ("called", {"a": 1})
    assert asked("tools/list") == {"tools": [{"name": "t"}]}
    assert asked("ping") == asked("notifications/initialized") == {}
    with pytest.raises(Fault) as unknown:
        asked("resources/list")
    assert (unknown.value.code, unknown.value.message) == (-32601, "unknown method: resources/list")


@given(st.text(), st.text())
def test_any_name_is_one_that_model_services_accept(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert len(name) <= NAME_CAP and re.fullmatch(r"mcp__[A-Za-z0-9_-]*", name)


def test_a_name_of_exactly_the_longest_length_is_left_as_it_is() -> None:
    room = NAME_CAP - len(tool_name("s", ""))
    assert tool_name("s", "t" * room) == "mcp__s__" + "t" * room
    assert tool_name("s", "t" * (room + 1)) != ("mcp__s__" + "t" * (room + 1))[:NAME_CAP]


@given(st.text(min_size=1), st.text())
def test_the_names_of_a_servers_tools_begin_with_its_prefix(server: str, tool: str) -> None:
    assert tool_name(server, tool).startswith(server_prefix(server))
    assert server_prefix("my server") == "mcp__my_server__"


def test_a_result_is_read_under_the_names_of_the_protocol() -> None:
    block = {"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": {}}
    read = msgspec.convert({"content": [block], "structuredContent": [1], "isError": True, "_meta": {}}, ServerResult)
    shown = ResultPart(type="image", data="AA==", mime_type="image/png")
    assert read == ServerResult(content=[shown], structured_content=[1], is_error=True)


def test_a_page_of_tools_and_a_greeting_need_little() -> None:
    page = msgspec.convert({"tools": [{"name": "x", "inputSchema": {}}], "nextCursor": "2"}, ToolPage)
    assert page == ToolPage(tools=[ServerTool(name="x", input_schema={})], next_cursor="2")
    assert msgspec.convert({"protocolVersion": "2025-11-25"}, Greeting).protocol_version == "2025-11-25"
