"""Clauses for a server of the Model Context Protocol on standard streams."""

import contextlib
import re
import time
from itertools import pairwise
from typing import Any

from treadle.conform.kit import Broken, Kit, Untried, expect, started
from treadle.conform.lines import LinePeer, shown
from treadle.conform.rpc import (
    INVALID_PARAMS,
    MEGABYTE,
    METHOD_NOT_FOUND,
    Caller,
    add_shared,
    all_whole,
    refusal,
    result_of,
    sample,
)
from treadle.conform.shapes import TYPES, fault

KIT = Kit(protocol="mcp", specification="Model Context Protocol, revision 2025-06-18", clauses=[])
clause = KIT.opening(started)

OPENING, TOOLS, OTHERS = "Lifecycle", "Tools", "Resources, prompts, logging, completion"
PAGES = 100
CALLS = 10
"""Tools that are called."""
READ = 40
"""Resources that are read."""
PROMPT = 1.0
"""Seconds in which a ping is answered promptly."""
PROGRESS, UPDATED = "notifications/progress", "notifications/resources/updated"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "conform", "version": "1"}}


async def opened(peer: LinePeer) -> tuple[Caller, dict[str, Any]]:
    caller = Caller(peer)
    found = await caller.result("initialize", HELLO)
    await caller.notify("notifications/initialized")
    return caller, found


async def offering(peer: LinePeer, name: str) -> tuple[Caller, dict[str, Any]]:
    """A conversation with a server that declares this capability, and the capability."""
    caller, found = await opened(peer)
    able = (found.get("capabilities") or {}).get(name)
    if able is None:
        raise Untried(f"the server offers no {name}")
    expect(isinstance(able, dict), found, f"the capability {name} is no object")
    return caller, able


async def pages(caller: Caller, method: str, kind: str) -> list[dict[str, Any]]:
    """All that is listed, page by page."""
    found: list[dict[str, Any]] = []
    cursors: list[str] = []
    while True:
        page = await caller.result(method, {"cursor": cursors[-1]} if cursors else {})
        listed = page.get(kind)
        expect(isinstance(listed, list), page, f"{kind} is no list")
        assert isinstance(listed, list)
        found += listed
        if "nextCursor" not in page:
            return found
        cursor = page["nextCursor"]
        expect(isinstance(cursor, str), page, "the nextCursor is no text")
        expect(cursor not in cursors and len(cursors) < PAGES, page, "the list has no end")
        cursors.append(cursor)


async def tools(peer: LinePeer) -> tuple[Caller, list[dict[str, Any]]]:
    caller, _able = await offering(peer, "tools")
    return caller, await pages(caller, "tools/list", "tools")


def named(listed: list[dict[str, Any]], by: str = "name") -> list[str]:
    names = [one.get(by) for one in listed]
    expect(all(isinstance(name, str) and name != "" for name in names), names, f"one has no {by}")
    expect(len(set(names)) == len(names), names, f"two have one {by}")
    return [str(name) for name in names]


@clause(OPENING, "initialize is answered with a version, capabilities, and the server's name and version")
async def _(peer: LinePeer) -> str:
    _caller, found = await opened(peer)
    version = found.get("protocolVersion")
    expect(bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(version))), found, "its protocolVersion is no date")
    return f"{shown(found['serverInfo'])}, {version}, {shown(found['capabilities'])}"


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


@clause(OPENING, "a client that offers nothing is asked for nothing, and told of no change that was not offered")
async def _(peer: LinePeer) -> str:
    caller, found = await opened(peer)
    if "tools" in (found.get("capabilities") or {}):
        await called(caller, harmless(await pages(caller, "tools/list", "tools"))[:CALLS])
    await caller.settled(0.5)
    wrong = [method for method in caller.asked if method != "ping"]
    expect(not wrong, wrong, "it asked for what was not offered")
    for line in peer.lines:
        kind = re.fullmatch("notifications/(.*)/list_changed", str(line.get("method")))
        able = (found.get("capabilities") or {}).get(kind[1]) or {} if kind else {"listChanged": True}
        expect(able.get("listChanged") is True, line, "it did not offer to tell of that")
    logged = caller.notices("notifications/message")
    expect("logging" in (found.get("capabilities") or {}) or not logged, logged[:1], "it did not offer to log")
    progress = caller.notices("notifications/progress")
    expect(not progress, progress[:1], "no progress was asked for")
    return "nothing"


async def called(caller: Caller, chosen: list[dict[str, Any]]) -> None:
    for tool in chosen:
        await caller.call("tools/call", fitting(tool))


def fitting(tool: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": tool["name"], "arguments": sample(tool["inputSchema"]), **more}


@clause(OPENING, "a cancel of a request that is not running changes nothing")
async def _(peer: LinePeer) -> str:
    caller, _found = await opened(peer)
    await caller.notify("notifications/cancelled", {"requestId": 77, "reason": "none"})
    return shown((await caller.call("ping")).get("result"))


@clause(TOOLS, "every tool has a name of its own and an object schema for its input")
async def _(peer: LinePeer) -> str:
    _caller, listed = await tools(peer)
    for tool in listed:
        whole = all(whole_schema(tool.get(name, True)) for name in ("inputSchema", "outputSchema"))
        expect(whole, tool, "a part of its schema is no JSON Schema")
    return f"{len(named(listed))} tools"


@clause(TOOLS, "a call that fits its schema has a result of content blocks, structured where a schema says so")
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    chosen = harmless(listed)[:CALLS]
    for tool in chosen:
        line = await caller.call("tools/call", fitting(tool))
        expect("result" in line, line, f"{tool['name']} was refused")
        if "outputSchema" in tool and not line["result"].get("isError"):
            given = line["result"].get("structuredContent")
            expect(not fault({}, tool["outputSchema"], given), line, "structuredContent does not fit the outputSchema")
    return f"{len(chosen)} tools"


@clause(TOOLS, "a tool that requires no argument is called without any")
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    chosen = [tool for tool in harmless(listed) if not tool["inputSchema"].get("required")]
    if not chosen:
        raise Untried("every tool that may be called requires some")
    return shown(await caller.result("tools/call", {"name": chosen[0]["name"]}))


@clause(TOOLS, "two calls at once are both answered, each with what it asked for")
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    chosen = harmless(listed)[0]
    words = ["heron", "pelican"]
    fields = chosen["inputSchema"].get("properties") or {}
    text = [
        name for name in chosen["inputSchema"].get("required") or [] if (fields.get(name) or {}).get("type") == "string"
    ]
    given = [{**sample(chosen["inputSchema"]), **{name: word for name in text[:1]}} for word in words]
    idents = [await caller.send("tools/call", {"name": chosen["name"], "arguments": each}) for each in given]
    answers = [shown(result_of(await caller.response(ident, "tools/call"), "tools/call")) for ident in reversed(idents)]
    swapped = [
        words[0] in answers[0] and words[1] not in answers[0],
        words[1] in answers[1] and words[0] not in answers[1],
    ]
    expect(not any(swapped), answers, "the answers are exchanged")
    return f"{chosen['name']}, twice"


@clause(TOOLS, "progress is of the call that asked for it, increases, and ends with it")
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    for tool in harmless(listed)[:CALLS]:
        at, token = len(caller.notices(PROGRESS)), f"conform-{tool['name']}"
        await caller.result("tools/call", fitting(tool, _meta={"progressToken": token}))
        found = caller.notices(PROGRESS)[at:]
        await caller.settled()
        expect(caller.notices(PROGRESS)[at:] == found, caller.notices(PROGRESS)[-1:], "some came after the response")
        expect(all(one.get("progressToken") == token for one in found), found, f"the token is not {token!r}")
        steps = [one["progress"] for one in found if isinstance(one.get("progress"), int | float)]
        whole = len(steps) == len(found) and all(one < after for one, after in pairwise(steps))
        expect(whole, found, "it does not increase")
    return f"{len(caller.notices(PROGRESS))} steps"


@clause(TOOLS, "ping is answered while a call runs, and a cancel ends that call alone, without an empty answer")
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    chosen = harmless(listed)[0]
    at = time.monotonic()
    first, second = [await caller.send("tools/call", fitting(chosen)) for _call in range(2)]
    await caller.call("ping")
    late = caller.ended(first) and time.monotonic() - at > PROMPT
    expect(not late, chosen["name"], f"ping was answered after the call, which took more than {PROMPT:g} s")
    await caller.notify("notifications/cancelled", {"requestId": first, "reason": "none"})
    result_of(await caller.response(second, "tools/call"), "tools/call")
    await caller.settled()
    if caller.ended(first):
        line = await caller.response(first, "tools/call")
        expect("error" in line or "content" in line["result"], line, "the cancelled call has an empty answer")
    return f"{chosen['name']}, twice"


@clause(
    TOOLS, "a call with an argument of a megabyte, and one whose arguments are no object, do not end the conversation"
)
async def _(peer: LinePeer) -> str:
    caller, listed = await tools(peer)
    chosen = harmless(listed)[0]
    fields = [*(chosen["inputSchema"].get("properties") or {}), "conform"]
    large = {**sample(chosen["inputSchema"]), fields[0]: "y" * MEGABYTE}
    await caller.call("tools/call", {"name": chosen["name"], "arguments": large})
    free = [tool for tool in harmless(listed) if not tool["inputSchema"].get("required")]
    line = await caller.call("tools/call", {"name": [*free, chosen][0]["name"], "arguments": ["wrong"]})
    refusal(line) if "error" in line else failed(line)
    return shown((await caller.call("ping")).get("result"))


def harmless(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools that say that they only read; where none says so, the first that does not say that it destroys."""
    named(listed)
    hints = [(tool, tool.get("annotations") or {}) for tool in listed]
    reading = [tool for tool, hint in hints if hint.get("readOnlyHint") is True]
    others = [tool for tool, hint in hints if hint.get("destructiveHint") is not True]
    if not reading and not others:
        raise Untried("no tool says that it may be called without harm")
    return reading or others[:1]


def whole_schema(schema: Any) -> bool:
    """Whether types, required fields and properties are said as JSON Schema says them."""
    if not isinstance(schema, dict):
        return isinstance(schema, bool)
    kind, fields, required = schema.get("type", []), schema.get("properties", {}), schema.get("required", [])
    known = all(one in TYPES for one in ([kind] if isinstance(kind, str) else kind))
    listed = isinstance(required, list) and all(isinstance(name, str) for name in required)
    return known and listed and all(map(whole_schema, fields.values())) and whole_schema(schema.get("items", True))


@clause(TOOLS, "a cursor that the server did not give is refused")
async def _(peer: LinePeer) -> str:
    caller, _listed = await tools(peer)
    if not any("nextCursor" in (line.get("result") or {}) for line in peer.lines):
        raise Untried("all of its tools are in one page")
    return refusal(await caller.call("tools/list", {"cursor": "conform-no-such-cursor"}), INVALID_PARAMS)


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


@clause(OTHERS, "resources are listed, with a uri and a name each, and are read")
async def _(peer: LinePeer) -> str:
    caller, _able = await offering(peer, "resources")
    listed = await pages(caller, "resources/list", "resources")
    await pages(caller, "resources/templates/list", "resourceTemplates")
    known = named(listed, "uri")
    for uri in known[:READ]:
        contents = (await caller.result("resources/read", {"uri": uri}))["contents"]
        others = [one["uri"] for one in contents if one["uri"] != uri and one["uri"] in known]
        expect(len(others) < len(contents), contents, f"they are not of {uri}")
    return f"{len(listed)} resources"


@clause(OTHERS, "a resource that does not exist is refused")
async def _(peer: LinePeer) -> str:
    caller, _able = await offering(peer, "resources")
    return refusal(await caller.call("resources/read", {"uri": "conform://no/such/resource"}))


@clause(OTHERS, "resources can be subscribed to, where that is offered, and until they are unsubscribed from")
async def _(peer: LinePeer) -> str:
    caller, able = await offering(peer, "resources")
    listed = await pages(caller, "resources/list", "resources")
    if able.get("subscribe") is not True or not listed:
        raise Untried("it offers no subscriptions, or has no resources")
    for method in ("resources/subscribe", "resources/unsubscribe"):
        for one in listed[:READ]:
            await caller.result(method, {"uri": one["uri"]})
        await caller.listen(0.5)
    at = len(caller.notices(UPDATED))
    await caller.listen(1.0)
    more = caller.notices(UPDATED)[at:]
    expect(not more, more, "it goes on to tell of a change")
    return f"{at} changes"


@clause(OTHERS, "prompts are listed, each with a name and a list of arguments, and are got as messages")
async def _(peer: LinePeer) -> str:
    caller, _able = await offering(peer, "prompts")
    listed = await pages(caller, "prompts/list", "prompts")
    named(listed)
    for prompt in listed:
        given = {one["name"]: "conform" for one in prompt.get("arguments") or []}
        line = await caller.call("prompts/get", {"name": prompt["name"], "arguments": given})
        if "error" in line:  # a value of ours may be wrong for it
            refusal(line)
    return f"{len(listed)} prompts"


@clause(OTHERS, "an unknown prompt, and one without a required argument, are refused")
async def _(peer: LinePeer) -> str:
    caller, _able = await offering(peer, "prompts")
    for prompt in await pages(caller, "prompts/list", "prompts"):
        if any(one.get("required") is True for one in prompt.get("arguments") or []):
            refusal(await caller.call("prompts/get", {"name": prompt.get("name")}))
    return refusal(await caller.call("prompts/get", {"name": "conform-no-such-prompt"}))


@clause(OTHERS, "a level of logging is set, and an unknown one is refused")
async def _(peer: LinePeer) -> str:
    caller, _able = await offering(peer, "logging")
    if any(line.get("result", {}).get("capabilities", {}).get("tools") is not None for line in peer.lines):
        chosen = harmless(await pages(caller, "tools/list", "tools"))[:CALLS]
        await caller.result("logging/setLevel", {"level": "emergency"})
        at = len(caller.notices("notifications/message"))
        await called(caller, chosen)
        low = [one for one in caller.notices("notifications/message")[at:] if one.get("level") in LEVELS[:-1]]
        expect(not low, low, "the level was set to emergency")
    await caller.result("logging/setLevel", {"level": "warning"})
    return refusal(await caller.call("logging/setLevel", {"level": "conform"}))


@clause(OTHERS, "an argument of a prompt is completed with a list of at most 100 texts")
async def _(peer: LinePeer) -> str:
    caller, _able = await offering(peer, "completions")
    listed = await pages(caller, "prompts/list", "prompts")
    arguments = [(prompt["name"], one["name"]) for prompt in listed for one in prompt.get("arguments") or []]
    if not arguments:
        raise Untried("no prompt has arguments")
    for prompt, argument in arguments:
        line = await caller.call("completion/complete", completing(prompt, argument))
        if "error" in line and prompt != arguments[0][0]:  # it may complete some only
            continue
        values = result_of(line, "completion/complete")["completion"]["values"]
        expect(len(values) <= 100, len(values), "they are more than 100 texts")
    return f"{len(arguments)} arguments"


def completing(prompt: str, argument: str) -> dict[str, Any]:
    return {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": argument, "value": ""}}


@clause(OTHERS, "the methods of what is not offered are refused with -32601")
async def _(peer: LinePeer) -> str:
    caller, found = await opened(peer)
    able = found.get("capabilities") or {}
    lists = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}
    absent = [method for name, method in lists.items() if name not in able]
    for method in absent:
        refusal(await caller.call(method), METHOD_NOT_FOUND)
    if "completions" not in able and "prompts" in able and str(found.get("protocolVersion")) > "2025":
        listed = await pages(caller, "prompts/list", "prompts")
        for prompt in [one for one in listed if one.get("arguments")]:
            refusal(
                await caller.call("completion/complete", completing(prompt["name"], prompt["arguments"][0]["name"]))
            )
    return ", ".join(absent) or "it offers all"


add_shared(KIT, HELLO)


@clause("Messages", "every message has the shape that the protocol publishes")
async def _(peer: LinePeer) -> str:
    """With all that was seen in the clauses before. Alone, it looks at what most programs have."""
    with contextlib.suppress(Untried, Broken):
        caller, found = await opened(peer)
        able = found.get("capabilities") or {}
        if "resources" in able:
            await pages(caller, "resources/templates/list", "resourceTemplates")
            for one in (await pages(caller, "resources/list", "resources"))[:READ]:
                await caller.call("resources/read", {"uri": one["uri"]})
        listed = await pages(caller, "prompts/list", "prompts") if "prompts" in able else []
        for prompt in listed:
            given = {one["name"]: "conform" for one in prompt.get("arguments") or []}
            await caller.call("prompts/get", {"name": prompt["name"], "arguments": given})
            for name in [*given][:1] if "completions" in able else ():
                await caller.call("completion/complete", completing(prompt["name"], name))
        if "tools" in able:
            await called(caller, harmless(await pages(caller, "tools/list", "tools"))[:CALLS])
        await caller.settled()
    return all_whole(peer)
