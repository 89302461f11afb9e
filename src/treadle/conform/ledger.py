"""Clauses for a coordination ledger over MCP: claims, decisions, conflicts, capsules, each act with a name to it."""

import json
import os
from typing import Any

from treadle.conform import mcp
from treadle.conform.kit import Broken, Kit, expect, started
from treadle.conform.lines import LinePeer, shown
from treadle.conform.rpc import Caller
from treadle.io.files import read_at_most

KIT = Kit(protocol="ledger", specification="coordination ledger over MCP, version 1.0", clauses=[*mcp.KIT.clauses])
clause = KIT.opening(started)

CONTRACT, CLAIMS, RECORDS = "Tool contract", "Claims", "Decisions, conflicts and capsules"
TOOLS = {
    "read_claims": set(),
    "make_claim": {"surfaces", "task"},
    "release_claim": set(),
    "read_capsules": set(),
    "append_decision": {"title", "body"},
    "raise_conflict_pr": {"id", "title", "surfaces"},
}
HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "cursor", "version": "1"}}


async def opened(peer: LinePeer) -> Caller:
    caller = Caller(peer)
    await caller.result("initialize", HELLO)
    await caller.notify("notifications/initialized")
    return caller


async def called(caller: Caller, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call that must succeed."""
    found = await caller.result("tools/call", {"name": tool, "arguments": arguments})
    expect(not found.get("isError"), found, f"{tool} failed")
    inner = found.get("structuredContent")
    expect(isinstance(inner, dict), found, "it has no structuredContent")
    assert isinstance(inner, dict)
    return inner


@clause(CONTRACT, "the server calls itself heimdall-ledger-mcp, in a version of three numbers", repository=True)
async def _(peer: LinePeer) -> str:
    found = (await Caller(peer).result("initialize", HELLO)).get("serverInfo") or {}
    numbers = str(found.get("version")).split(".")
    expect(found.get("name") == "heimdall-ledger-mcp", found, "the name is another")
    expect(len(numbers) == 3 and all(part.isdigit() for part in numbers), found, "the version is another")
    return str(found["version"])


@clause(CONTRACT, "the six tools are there, and require what the contract says", repository=True)
async def _(peer: LinePeer) -> str:
    listed = (await (await opened(peer)).result("tools/list")).get("tools") or []
    required = {tool.get("name"): set((tool.get("inputSchema") or {}).get("required", [])) for tool in listed}
    wrong = {
        name: sorted(required.get(name, {"missing"})) for name, wanted in TOOLS.items() if required.get(name) != wanted
    }
    expect(not wrong, wrong, "these differ")
    return f"{len(required)} tools"


@clause(CONTRACT, "a result is a JSON text block, mirrored by structuredContent", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    found = await caller.result("tools/call", {"name": "read_claims", "arguments": {}})
    text = next((part.get("text") for part in found.get("content") or [] if part.get("type") == "text"), None)
    expect(text is not None, found, "it has no text block")
    try:
        expect(json.loads(str(text)) == found.get("structuredContent"), found, "the two differ")
    except ValueError as error:
        raise Broken(f"the text is no JSON: {shown(text)}") from error
    return "the same"


@clause(CONTRACT, "every result names the one who acted, by the client's own name", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    first = (await called(caller, "read_claims")).get("haid")
    other = (await called(caller, "read_claims", client_identity="copilot")).get("haid")
    expect(str(first).endswith("/cursor"), first, "the name from initialize is not in it")
    expect(str(other).endswith("/copilot"), other, "the name of the call is not in it")
    return f"{first}, {other}"


@clause(CONTRACT, "requests framed by Content-Length are read too", repository=True)
async def _(peer: LinePeer) -> str:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    await peer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    line = await peer.hear("the response")
    expect(line.get("id") == 1 and "result" in line, line, "it was not answered")
    return "answered in a line"


@clause(CLAIMS, "what was claimed is read back, with its count", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    await called(caller, "make_claim", surfaces=["src/a/**"], task="T-1")
    found = await called(caller, "read_claims")
    expect(found.get("count") == 1 and "src/a/**" in json.dumps(found), found, "it is not there")
    return "1 claim"


@clause(CLAIMS, "a claim that overlaps another client's is refused", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    await called(caller, "make_claim", surfaces=["src/a/**"], task="T-1")
    other = {"surfaces": ["src/a/b.py"], "task": "T-2", "client_identity": "copilot"}
    seen = mcp.failed(await caller.call("tools/call", {"name": "make_claim", "arguments": other}))
    expect((await called(caller, "read_claims")).get("count") == 1, seen, "it was refused and is there")
    return seen


@clause(CLAIMS, "what was released can be claimed by another", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    await called(caller, "make_claim", surfaces=["src/a/**"], task="T-1")
    await called(caller, "release_claim")
    found = await called(caller, "make_claim", surfaces=["src/a/b.py"], task="T-2", client_identity="copilot")
    return shown(found.get("haid"))


@clause(CLAIMS, "a claim of nothing is refused", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    return mcp.failed(
        await caller.call("tools/call", {"name": "make_claim", "arguments": {"surfaces": [], "task": "T"}})
    )


@clause(RECORDS, "append_decision adds to decisions.md, with the name of the one who decided", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    for title in ("One parser", "Two parsers"):
        await called(caller, "append_decision", title=title, body="Because it is quicker.")
    path = os.path.join(peer.cwd, ".planning", "ledger", "decisions.md")
    expect(os.path.exists(path), path, "there is no such file")
    text = read_at_most(path, 1_000_000).decode(errors="replace")
    expect(text.find("One parser") < text.find("Two parsers"), text, "the entries are not there in order")
    expect("One parser" in text and "/cursor" in text, text, "an entry or a name is missing")
    return shown(text)


@clause(RECORDS, "raise_conflict_pr writes a record of the conflict and says where", repository=True)
async def _(peer: LinePeer) -> str:
    caller = await opened(peer)
    await called(caller, "raise_conflict_pr", id="C-1", title="Two parsers", surfaces=["src/a/**"])
    directory = os.path.join(peer.cwd, ".planning", "ledger", "conflicts")
    there = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    expect(len(there) == 1 and there[0].endswith(".md"), there, "there is no record")
    return there[0]


@clause(RECORDS, "read_capsules of an empty repository gives none", repository=True)
async def _(peer: LinePeer) -> str:
    found = await called(await opened(peer), "read_capsules")
    expect(found.get("capsules") == [], found, "it gives some")
    return "none"
