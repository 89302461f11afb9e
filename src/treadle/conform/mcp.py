"""Clauses for a server of the Model Context Protocol on standard streams."""

from typing import Any

from treadle.conform.kit import Broken, Kit, Untried, expect, started
from treadle.conform.lines import LinePeer, shown
from treadle.conform.rpc import INVALID_PARAMS, Caller, add_shared, refusal

KIT = Kit(protocol="mcp", specification="Model Context Protocol, revision 2025-06-18", clauses=[])
clause = KIT.opening(started)

OPENING, TOOLS = "Lifecycle", "Tools"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "conform", "version": "1"}}


async def opened(peer: LinePeer) -> tuple[Caller, dict[str, Any]]:
    caller = Caller(peer)
    found = await caller.result("initialize", HELLO)
    await caller.notify("notifications/initialized")
    return caller, found


async def tools(peer: LinePeer) -> tuple[Caller, list[dict[str, Any]]]:
    caller, found = await opened(peer)
    if "tools" not in (found.get("capabilities") or {}):
        raise Untried("the server offers no tools")
    listed = (await caller.result("tools/list")).get("tools")
    expect(isinstance(listed, list), listed, "tools is no list")
    assert isinstance(listed, list)
    return caller, listed


@clause(OPENING, "initialize is answered with a version, capabilities, and the server's name and version")
async def _(peer: LinePeer) -> str:
    _caller, found = await opened(peer)
    expect(isinstance(found.get("protocolVersion"), str), found, "it has no protocolVersion")
    expect(isinstance(found.get("capabilities"), dict), found, "it has no capabilities")
    about = found.get("serverInfo") or {}
    expect(all(isinstance(about.get(name), str) for name in ("name", "version")), found, "serverInfo is not whole")
    return f"{about['name']} {about['version']}, {found['protocolVersion']}"


@clause(OPENING, "a version that the server has is answered with the same")
async def _(peer: LinePeer) -> str:
    found = await Caller(peer).result("initialize", {**HELLO, "protocolVersion": "2024-11-05"})
    if found.get("protocolVersion") != "2024-11-05":
        raise Untried(f"it has {found.get('protocolVersion')} only")
    return "2024-11-05"


@clause(OPENING, "a version that no server has is answered with one that it has")
async def _(peer: LinePeer) -> str:
    found = await Caller(peer).result("initialize", {**HELLO, "protocolVersion": "1999-01-01"})
    expect(found.get("protocolVersion") != "1999-01-01", found, "it claims to have that version")
    return str(found.get("protocolVersion"))


@clause(OPENING, "ping is answered with an empty result")
async def _(peer: LinePeer) -> str:
    caller, _found = await opened(peer)
    line = await caller.call("ping")
    expect(line.get("result") == {}, line, "the result is another")
    return "empty"


@clause(TOOLS, "every tool has a name of its own and an object schema for its input")
async def _(peer: LinePeer) -> str:
    _caller, listed = await tools(peer)
    for tool in listed:
        expect(isinstance(tool.get("name"), str) and tool["name"] != "", tool, "a tool has no name")
        expect((tool.get("inputSchema") or {}).get("type") == "object", tool, "its schema is not of an object")
    names = [tool["name"] for tool in listed]
    expect(len(set(names)) == len(names), names, "two tools have one name")
    return f"{len(names)} tools"


@clause(TOOLS, "required arguments are among the properties of the schema")
async def _(peer: LinePeer) -> str:
    _caller, listed = await tools(peer)
    for tool in listed:
        schema = tool["inputSchema"]
        expect(set(schema.get("required", [])) <= set(schema.get("properties", {})), tool, "one is not")
    return f"{len(listed)} tools"


@clause(TOOLS, "a call of an unknown tool is refused with -32602, or is a result with isError")
async def _(peer: LinePeer) -> str:
    caller, _listed = await tools(peer)
    return failed(await caller.call("tools/call", {"name": "conform_no_such_tool", "arguments": {}}))


@clause(TOOLS, "a call without a required argument is refused with -32602, or is a result with isError")
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    needy = [tool["name"] for tool in listed if tool["inputSchema"].get("required")]
    if not needy:
        raise Untried("no tool requires an argument")
    return failed(await caller.call("tools/call", {"name": needy[0], "arguments": {}}))


def failed(line: dict[str, Any]) -> str:
    if "error" in line:
        return refusal(line, INVALID_PARAMS)
    if line["result"].get("isError") is not True:
        raise Broken(f"it succeeded: {shown(line)}")
    content = line["result"].get("content")
    expect(isinstance(content, list) and bool(content), line, "the error says nothing")
    return shown(content)


add_shared(KIT, HELLO)
