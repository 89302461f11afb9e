"""Names of tools that every model service accepts, and what a server must be able to say."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.common.jsonrpc import Fault
from treadle.wire.mcp.connection import (
    NAME_CAP,
    Greeting,
    ResultPart,
    ServerResult,
    ServerTool,
    ToolPage,
    server_prefix,
    tool_name,
)
from treadle.wire.mcp.revisions import dispatch


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
