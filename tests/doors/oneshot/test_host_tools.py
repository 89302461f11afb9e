"""Tools of a server inside the host's process: how they are listed and called, and what a broken server costs."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from treadle.doors.oneshot import input
from treadle.doors.oneshot.input import MOST_PAGES, HostServer
from treadle.errors import RemoteError, ToolError
from treadle.session import OwnTool, ShownResult


class Host:
    """Answers by method; keeps what it was sent."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "initialize": {"result": {}},
            **{name.replace("_", "/"): each for name, each in answers.items()},
        }
        self.sent: list[dict[str, Any]] = []

    async def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        assert (request["subtype"], request["server_name"]) == ("mcp_message", "calc")
        message = request["message"]
        self.sent.append(message)
        answer = self.answers.get(message["method"])
        return {"mcp_response": answer(message["params"]) if callable(answer) else answer}

    async def tools(self) -> tuple[OwnTool, ...]:
        return await HostServer("calc", self, lambda server, tool: f"mcp__{server}__{tool}").tools()


def listing(*entries: Any) -> dict[str, Any]:
    return {"result": {"tools": [*entries]}}


async def test_a_server_is_greeted_and_its_tools_are_listed_page_by_page() -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        first = "cursor" not in params
        return {"result": {"tools": [{"name": "a" if first else "b"}, {}, 7], "nextCursor": "2" if first else None}}

    host = Host(tools_list=page)
    tools = await host.tools()
    assert [tool.name for tool in tools] == ["mcp__calc__a", "mcp__calc__b"]
    assert tools[0].description == "a" and tools[0].parameters == {"type": "object", "properties": {}}
    methods = [message["method"] for message in host.sent]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/list"]
    assert "id" not in host.sent[1] and len({message["id"] for message in host.sent if "id" in message}) == 3


async def test_pages_without_end_are_cut_off() -> None:
    host = Host(tools_list={"result": {"tools": [{"name": "a"}], "nextCursor": "again"}})
    assert len(await host.tools()) == MOST_PAGES


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"error": {"message": "no such thing"}}, "no such thing"),
        ({"result": [1]}, "answered tools/list without a result"),
        ({}, "without a result"),
        ("what", "without a result"),
    ],
)
async def test_a_server_that_does_not_answer_properly_is_an_error_that_names_it(answer: Any, why: str) -> None:
    with pytest.raises(RemoteError, match=why) as raised:
        await Host(tools_list=answer).tools()
    assert "'calc'" in str(raised.value)


async def test_a_call_passes_the_arguments_and_gives_text_and_images() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "resource"}, "odd", {"type": "text", "text": "two"}]
    picture = {"type": "image", "data": b64encode(b"png").decode()}
    host = Host(tools_list=listing({"name": "add", "inputSchema": {"type": "object"}}))
    (tool,) = await host.tools()
    host.answers["tools/call"] = {"result": {"content": blocks}}
    assert await tool.call({"x": 1}) == "one\n[resource]\ntwo"
    assert host.sent[-1]["params"] == {"name": "add", "arguments": {"x": 1}}
    host.answers["tools/call"] = {"result": {"content": [*blocks, picture]}}
    assert await tool.call({}) == ShownResult(text="one\n[resource]\ntwo", images=(b"png",))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"result": {"isError": True, "content": [{"type": "text", "text": "too large"}]}}, "too large"),
        ({"result": {"isError": True}}, "failed without saying why"),
        ({"error": {"message": "gone"}}, "gone"),
    ],
)
async def test_a_call_that_fails_is_an_error_for_the_model_to_read(answer: Any, why: str) -> None:
    host = Host(tools_list=listing({"name": "add"}), tools_call=answer)
    (tool,) = await host.tools()
    with pytest.raises(ToolError, match=why):
        await tool.call({})


async def test_a_server_hears_who_greets_it_and_where_the_next_page_begins() -> None:
    pages = [{"tools": None, "nextCursor": "p2"}, {"tools": [{"name": "a", "description": "does a"}]}]
    host = Host(tools_list=lambda params: {"result": pages.pop(0)})
    (tool,) = await host.tools()
    assert tool.description == "does a"
    greeting = host.sent[0]["params"]
    assert greeting["protocolVersion"] == input.PROTOCOL and greeting["clientInfo"]["name"] == "treadle"
    assert [message["params"] for message in host.sent[2:]] == [{}, {"cursor": "p2"}]
    assert all(message["jsonrpc"] == "2.0" for message in host.sent)


async def test_a_server_that_is_silent_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tools_list=listing({"name": "add", "inputSchema": "odd"}))
    (tool,) = await host.tools()
    assert tool.parameters == {"type": "object", "properties": {}}

    async def silent(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(input, "START_SECONDS", 0.001)
    monkeypatch.setattr(input, "CALL_SECONDS", 0.001)
    with pytest.raises(RemoteError, match="'calc' of the host did not answer in time"):
        await HostServer("calc", silent, str).tools()  # type: ignore[arg-type]
    monkeypatch.setattr(Host, "__call__", lambda self, request: silent(request))
    with pytest.raises(ToolError, match="add of the host did not answer within 0.001 s"):
        await tool.call({})


async def test_a_call_that_gives_nothing_or_only_images_has_no_text() -> None:
    host = Host(tools_list=listing({"name": "add"}), tools_call={"result": {}})
    (tool,) = await host.tools()
    assert await tool.call({}) == ""
    host.answers["tools/call"] = {"result": {"content": [{"type": "image", "data": b64encode(b"x").decode()}]}}
    assert await tool.call({}) == ShownResult(text="", images=(b"x",))
    host.answers["tools/call"] = {"error": {"code": 7}}
    with pytest.raises(ToolError, match="'calc' of the host: {'code': 7}"):
        await tool.call({})
