"""Tools of a program as MCP servers: what Claude Code's client asks, and what it is told."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import png
from treadle import __version__
from treadle.drivers.claude.gate import HostedTools
from treadle.errors import ToolError
from treadle.session import OwnTool, ShownResult

SCHEMA = {"type": "object", "properties": {}}


async def upper(args: dict[str, Any]) -> str:
    if "text" not in args:
        raise ToolError("there is no text")
    return str(args["text"]).upper()


def hosted() -> HostedTools:
    tools = HostedTools()
    own = {"description": "Shouts.", "parameters": SCHEMA, "call": upper}
    tools.add((OwnTool(name="shout", **own), OwnTool(name="mcp__words__shout", **own)))
    return tools


async def ask(server: str, method: str, **params: Any) -> dict[str, Any]:
    return await hosted().answer(server, {"jsonrpc": "2.0", "id": 7, "method": method, "params": params})


async def test_tools_are_grouped_by_the_server_that_their_names_say() -> None:
    assert list(hosted().servers()) == ["treadle", "words"]
    listed = (await ask("words", "tools/list"))["result"]["tools"]
    assert listed == [{"name": "shout", "description": "Shouts.", "inputSchema": SCHEMA}]


async def test_a_call_gives_text_and_a_failure_is_for_the_model_to_read() -> None:
    good = await ask("treadle", "tools/call", name="shout", arguments={"text": "a"})
    assert good["result"] == {"content": [{"type": "text", "text": "A"}], "isError": False} and good["id"] == 7
    bad = await ask("treadle", "tools/call", name="shout")
    assert bad["result"]["isError"] and bad["result"]["content"][0]["text"] == "there is no text"


async def test_a_revision_that_we_speak_is_agreed_on_and_none_that_we_do_not() -> None:
    for asked, agreed in (("2025-06-18", "2025-06-18"), ("x", "2025-11-25")):
        welcomed = (await ask("words", "initialize", protocolVersion=asked))["result"]
        assert welcomed["protocolVersion"] == agreed and welcomed["serverInfo"]["name"] == "words"


async def test_what_is_not_there_is_an_error_and_a_notice_gets_no_words() -> None:
    assert (await ask("treadle", "tools/call", name="whisper"))["error"]["code"] == -32602
    assert (await ask("nobody", "tools/list"))["error"]["code"] == -32602
    assert (await ask("treadle", "resources/list"))["error"]["code"] == -32601
    assert "error" not in await hosted().answer("treadle", {"method": "notifications/initialized"})


@given(st.recursive(st.none() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)))
async def test_any_message_is_answered(message: Any) -> None:
    assert (await hosted().answer("treadle", message))["jsonrpc"] == "2.0"


async def test_a_result_may_show_images_and_arguments_that_are_none_are_empty() -> None:
    seen: list[Any] = []

    async def draw(args: dict[str, Any]) -> ShownResult:
        seen.append(args)
        return ShownResult(text="a dot", images=(png(),))

    tools = HostedTools()
    names = ("draw", "mcp__x", "other__art__draw", "mcp__art__deep__draw")
    tools.add(tuple(OwnTool(name=name, description="", parameters=SCHEMA, call=draw) for name in names))
    assert tools.servers() == {"treadle": {"type": "sdk", "name": "treadle"}, "art": {"type": "sdk", "name": "art"}}
    message = {"id": 1, "method": "tools/call", "params": {"name": "deep__draw", "arguments": 7}}
    drawn = (await tools.answer("art", message))["result"]
    assert (
        [part["type"] for part in drawn["content"]] == ["text", "image"] and drawn["isError"] is False and seen == [{}]
    )
    listed = await tools.answer("treadle", {"id": 2, "method": "tools/list", "params": 7})
    assert [each["name"] for each in listed["result"]["tools"]] == list(names[:3])
    refused = (await tools.answer("art", {"id": 3, "method": "tools/call", "params": {"name": "none"}}))["error"]
    assert refused == {"code": -32602, "message": "there is no tool 'none'"}
    nowhere = (await tools.answer("nowhere", {"id": 4, "method": "tools/list"}))["error"]
    assert nowhere["message"] == "there is no server 'nowhere'"
    assert await tools.answer("art", {"method": "x"}) == {"jsonrpc": "2.0", "result": {}, "id": 0}
    welcomed = (await tools.answer("art", {"id": 5, "method": "initialize"}))["result"]
    assert welcomed["serverInfo"] == {"name": "art", "version": __version__} and welcomed["instructions"] == ""
