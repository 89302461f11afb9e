"""Clauses for an agent that speaks the Agent Client Protocol."""

from typing import Any

from treadle.conform.kit import ANSWER, PLAIN, Broken, Kit, Untried, asked, expect, started
from treadle.conform.lines import LinePeer, shown
from treadle.conform.rpc import Caller, add_shared, refusal

KIT = Kit(protocol="acp", specification="Agent Client Protocol, version 1", clauses=[])
clause = KIT.opening(started)

OPENING, TURN, CANCEL = "initialize and sessions", "session/prompt", "session/cancel"
SLOW = '[[reply]]\ntext = "Slow."\ndelay = 600\n'
STOPS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
HELLO = {"protocolVersion": 1, "clientCapabilities": CAPABILITIES}


async def session(peer: LinePeer) -> tuple[Caller, str]:
    caller = Caller(peer)
    await caller.result("initialize", HELLO)
    line = await caller.call("session/new", {"cwd": peer.cwd, "mcpServers": []})
    if "error" in line:
        raise Untried(f"session/new was refused: {shown(line['error'])}")
    ident = line["result"].get("sessionId")
    expect(isinstance(ident, str) and ident != "", line, "the session has no id")
    return caller, str(ident)


def prompt(ident: str, text: str = "Hello.") -> dict[str, Any]:
    return {"sessionId": ident, "prompt": [{"type": "text", "text": text}]}


async def answered(caller: Caller, ident: str) -> dict[str, Any]:
    line = await caller.call("session/prompt", prompt(ident))
    if "error" in line:
        raise Untried(f"it got no answer from the model that it was pointed at: {shown(line['error'])}")
    found: dict[str, Any] = line["result"]
    return found


def message_text(caller: Caller, kind: str = "agent_message_chunk") -> str:
    updates = [notice.get("update") or {} for notice in caller.notices("session/update")]
    content = [update.get("content") or {} for update in updates if update.get("sessionUpdate") == kind]
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


@clause(OPENING, "initialize is answered with protocol version 1 and agentCapabilities")
async def _(peer: LinePeer) -> str:
    found = await Caller(peer).result("initialize", HELLO)
    expect(found.get("protocolVersion") == 1, found, "the protocolVersion is another")
    expect(isinstance(found.get("agentCapabilities", {}), dict), found, "agentCapabilities is no object")
    return shown(found.get("agentInfo"))


@clause(OPENING, "a client of a later version is answered with one that the agent has")
async def _(peer: LinePeer) -> str:
    found = await Caller(peer).result("initialize", {**HELLO, "protocolVersion": 999})
    version = found.get("protocolVersion")
    expect(type(version) is int and 1 <= version < 999, found, "it claims to speak the version of the client")
    return f"version {version}"


@clause(OPENING, "session/new gives each session an id of its own")
async def _(peer: LinePeer) -> str:
    caller, first = await session(peer)
    second = (await caller.result("session/new", {"cwd": peer.cwd, "mcpServers": []})).get("sessionId")
    expect(first != second and isinstance(second, str), second, "both have the same")
    return f"{first}, {second}"


@clause(OPENING, "session/new without a directory is refused")
async def _(peer: LinePeer) -> str:
    caller, _ident = await session(peer)
    return refusal(await caller.call("session/new", {"mcpServers": []}))


@clause(TURN, "a prompt is answered with a stop reason of the protocol")
async def _(peer: LinePeer) -> str:
    found = await answered(*await session(peer))
    expect(found.get("stopReason") in STOPS, found, "the stopReason is another")
    return str(found["stopReason"])


@clause(TURN, "the answer's text comes as agent_message_chunk updates, all before the response")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident)
    before = message_text(caller)
    await peer.quiet(0.5)
    expect(message_text(caller) == before, message_text(caller), "more text came after the response")
    expect(ANSWER in before if peer.model.asked else before != "", before, f"the text is not {ANSWER!r}")
    return shown(before)


@clause(TURN, "every session/update names its session and its kind")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident)
    for notice in caller.notices("session/update"):
        expect(notice.get("sessionId") == ident, notice, "the session is another")
        expect(isinstance((notice.get("update") or {}).get("sessionUpdate"), str), notice, "it has no kind")
    return f"{len(caller.notices('session/update'))} updates"


@clause(TURN, "a second prompt in the session is answered too")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident)
    found = await caller.result("session/prompt", prompt(ident, "Again."))
    expect(found.get("stopReason") == "end_turn", found, "it did not end")
    return str(found["stopReason"])


@clause(TURN, "a prompt in a session that does not exist is refused")
async def _(peer: LinePeer) -> str:
    caller, _ident = await session(peer)
    return refusal(await caller.call("session/prompt", prompt("no-such-session")))


@clause(TURN, "a prompt without content is refused")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    return refusal(await caller.call("session/prompt", {"sessionId": ident}))


@clause(TURN, "a client that offers neither files nor terminals is not asked for them")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident)
    wrong = [method for method in caller.asked if method.startswith(("fs/", "terminal/"))]
    expect(not wrong, wrong, "it asked for what was not offered")
    return f"it asked for {caller.asked or 'nothing'}"


@clause(
    TURN,
    "a model that fails is an error, or a turn that does not pretend an answer",
    '[[reply]]\ntimes = "always"\n[reply.error]\nstatus = 400\n',
)
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    line = await caller.call("session/prompt", prompt(ident))
    if not peer.model.asked:
        raise Untried("it did not ask the model that it was pointed at")
    if "error" in line:
        return refusal(line)
    text = message_text(caller)
    expect(line["result"].get("stopReason") != "end_turn" or text != "", line, "it ended as if all were well")
    return shown(text or line["result"])


@clause(CANCEL, "session/cancel ends the running prompt with the stop reason cancelled", SLOW * 3 + PLAIN)
async def _(peer: LinePeer) -> str:
    _caller, _ident, line = await _cancelled(peer)
    if "error" in line:
        raise Broken(f"the prompt ended with an error: {shown(line['error'])}")
    expect(line["result"].get("stopReason") == "cancelled", line["result"], "the stopReason is another")
    return "cancelled"


@clause(CANCEL, "after session/cancel the session goes on", SLOW + PLAIN)
async def _(peer: LinePeer) -> str:
    caller, ident, _line = await _cancelled(peer)
    line = await caller.call("session/prompt", prompt(ident, "Again."))
    if "error" in line:
        raise Broken(f"the next prompt was refused: {shown(line['error'])}")
    return str(line["result"].get("stopReason"))


@clause(CANCEL, "session/cancel without a running prompt changes nothing")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await caller.notify("session/cancel", {"sessionId": ident})
    found = await answered(caller, ident)
    expect(found.get("stopReason") == "end_turn", found, "the next prompt did not end by itself")
    return "the next prompt ended by itself"


async def _cancelled(peer: LinePeer) -> tuple[Caller, str, dict[str, Any]]:
    """A session whose prompt was cancelled, and how that was answered."""
    caller, ident = await session(peer)
    running = await caller.send("session/prompt", prompt(ident))
    await asked(peer)
    await caller.notify("session/cancel", {"sessionId": ident})
    return caller, ident, await caller.response(running, "session/prompt")


add_shared(KIT, HELLO)
