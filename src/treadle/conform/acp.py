"""Clauses for an agent that speaks the Agent Client Protocol."""

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from treadle.agent.providers.script import CallLine, Player, Script, ScriptedReply
from treadle.conform.kit import ANSWER, PLAIN, Broken, Kit, Untried, expect, started
from treadle.conform.lines import LinePeer, shown
from treadle.conform.rpc import MEGABYTE, Caller, add_shared, all_whole, refusal, result_of, sample
from treadle.io.files import write_atomic
from treadle.io.process.child import start
from treadle.io.tasks import within

KIT = Kit(protocol="acp", specification="Agent Client Protocol, version 1", clauses=[])
clause = KIT.opening(started)

OPENING, TURN, CANCEL = "initialize and sessions", "session/prompt", "session/cancel"
TOOLS, STORED = "tools and permissions", "several sessions, load, list, resume, close"
SLOW = '[[reply]]\ntext = "Slow."\ndelay = 600\n'
STOPS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
HELLO = {"protocolVersion": 1, "clientCapabilities": CAPABILITIES}
OF_TURN = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "plan")
WRITING = ("path", "content")
SAYS, OUTPUT = "printf 'heron-%d' 42", "heron-42"
"""A command, and what only its output has. Some agents refuse a command with a substitution."""
WORDS = 'Pelicans \u00e9t\u00e9 \u6f22 \U0001f389 \u2028 "quoted" \\\\ end.'
NUMBERS = " ".join(f"{number:06}" for number in range(MEGABYTE // 7))
"""A megabyte in which nothing repeats: some agents end a turn whose model seems to loop."""
NATURAL = 1.0
"""Seconds in which a turn that asks no model may end by itself, beside a cancel."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    tool = {"name": f"{sys.argv[1]}_{os.environ['CONFORM']}", "description": "x", "inputSchema": {"type": "object"}}
    hello = {"capabilities": {"tools": {}}, "serverInfo": {"name": "conform", "version": "1"}}
    results = {"initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"), **hello}}
    results |= {"tools/list": {"tools": [tool]}, "ping": {}}
    if asked.get("method") in results:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}), flush=True)
"""
"""An MCP server whose one tool has a name that is made of its argument and its variable."""


async def session(peer: LinePeer, hello: dict[str, Any] = HELLO) -> tuple[Caller, str]:
    caller = EditorCaller(peer)
    await caller.result("initialize", hello)
    line = await caller.call("session/new", {"cwd": peer.cwd, "mcpServers": []})
    if "error" in line:
        raise Untried(f"session/new was refused: {shown(line['error'])}")
    ident = line["result"].get("sessionId")
    expect(isinstance(ident, str) and ident != "", line, "the session has no id")
    return caller, str(ident)


class EditorCaller(Caller):
    """What it is asked for and told is held against what was offered before, too."""

    def __init__(self, peer: LinePeer) -> None:
        super().__init__(peer)
        self.offers = _permitted
        self._modes: dict[str, list[Any]] = {}
        """Those of each session."""

    def heard(self, line: dict[str, Any], asked: str = "") -> bool:
        if whole := super().heard(line, asked):
            wrong = self._not_offered(line.get("params") or {}, str(line.get("method")))
            found = line.get("result") or {}
            if asked == "session/new" and found.get("modes"):
                self._modes[found["sessionId"]] = [mode["id"] for mode in found["modes"]["availableModes"]]
            for why in wrong:
                self.peer.watch.note(f"{line['method']}: {why}", line)
        return whole

    def _not_offered(self, params: dict[str, Any], method: str) -> Iterator[str]:
        able, (area, _, name) = self.offered, method.partition("/")
        flag = {"read_text_file": "readTextFile", "write_text_file": "writeTextFile"}.get(name, "")
        if (area == "fs" and not able["fs"].get(flag)) or (area == "terminal" and not able["terminal"]):
            yield "the client does not offer that"
        update = params.get("update") or {}
        modes = self._modes.get(params.get("sessionId", ""))
        if update.get("sessionUpdate") == "current_mode_update" and modes and update["currentModeId"] not in modes:
            yield f"the modes of the session are {modes}"
        paths = [params.get("path"), params.get("cwd"), *(one["path"] for one in update.get("locations") or [])]
        paths += [one.get("path") for one in update.get("content") or [] if isinstance(one, dict)]
        if wrong := [path for path in paths if path and not os.path.isabs(path)]:
            yield f"{wrong[0]!r} is no absolute path"


async def _permitted(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Every client answers a question for permission; files and terminals are offered apart."""
    return ALLOW(_options(params)) if method == "session/request_permission" else None


def _options(params: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in params.get("options") or [] if isinstance(one, dict) and "optionId" in one]


def prompt(ident: str, text: str = "Hello.") -> dict[str, Any]:
    return {"sessionId": ident, "prompt": [{"type": "text", "text": text}]}


def remembers(peer: LinePeer, words: str, since: int = 0) -> str:
    """The model was given these words in one of its requests after so many."""
    if not peer.model.asked:
        raise Untried("it did not ask the model that it was pointed at")
    given = [json.dumps(request.body, ensure_ascii=False) for request in peer.model.asked[since:]]
    escaped = json.dumps(words, ensure_ascii=False)[1:-1]
    expect(any(escaped in each for each in given), given[-1:], f"the model was not given {words[:80]!r}")
    return shown(words)


async def another(caller: Caller) -> str:
    """The id of a further session."""
    found = await caller.result("session/new", {"cwd": caller.peer.cwd, "mcpServers": []})
    return str(found.get("sessionId"))


async def under_way(caller: Caller, ident: str, text: str = "Hello.") -> int | str:
    """Prompt, and wait until it is worked on: the model was asked, or something of the turn was reported."""
    model, before = caller.peer.model, len(caller.peer.model.asked)

    def begun() -> bool:
        updates = [notice.get("update") or {} for notice in caller.notices("session/update")]
        return len(model.asked) > before or any(update.get("sessionUpdate") in OF_TURN for update in updates)

    running = await caller.send("session/prompt", prompt(ident, text))
    with contextlib.suppress(TimeoutError):
        async with within(caller.peer.patience):
            while not begun() and not caller.ended(running):
                await caller.settled(0.05)
    if caller.ended(running) or not begun():
        raise Untried("its turn ended at once" if caller.ended(running) else "nothing of its turn was seen")
    return running


async def goes_on(caller: Caller, ident: str, *known: str) -> str:
    """A second prompt ends by itself, and the model is given these words of before."""
    before = len(caller.peer.model.asked)
    found = await caller.result("session/prompt", prompt(ident, "Again."))
    expect(found.get("stopReason") == "end_turn", found, "the next prompt did not end by itself")
    return [remembers(caller.peer, words, before) for words in known][-1]


def tools_of(body: Any) -> dict[str, Any]:
    """The tools that a request offers to a model, with the schemas of their arguments, in any of four formats."""
    given = body.get("tools") if isinstance(body, dict) else None
    listed = [each for each in given or [] if isinstance(each, dict)]
    listed += [one for each in listed for one in each.get("functionDeclarations") or []]
    found = {}
    for tool in listed:
        tool = tool.get("function") or tool
        schema = tool.get("parameters") or tool.get("input_schema") or tool.get("parametersJsonSchema")
        if isinstance(tool.get("name"), str) and isinstance(schema, dict):
            found[tool["name"]] = schema
    return found


async def answered(caller: Caller, ident: str, text: str = "Hello.") -> dict[str, Any]:
    line = await caller.call("session/prompt", prompt(ident, text))
    if "error" in line:
        raise Untried(f"it got no answer from the model that it was pointed at: {shown(line['error'])}")
    found: dict[str, Any] = line["result"]
    return found


def message_text(caller: Caller) -> str:
    return text_of([one.get("update") or {} for one in caller.notices("session/update")], "agent_message_chunk")


def text_of(updates: list[dict[str, Any]], kind: str) -> str:
    content = [update.get("content") or {} for update in updates if update.get("sessionUpdate") == kind]
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


@clause(OPENING, "initialize is answered with protocol version 1 and agentCapabilities")
async def _(peer: LinePeer) -> str:
    found = await EditorCaller(peer).result("initialize", HELLO)
    version = found.get("protocolVersion")
    expect(type(version) is int and version == 1, found, "the protocolVersion is another")
    expect(isinstance(found.get("agentCapabilities", {}), dict), found, "agentCapabilities is no object")
    return shown(found.get("agentInfo"))


@clause(OPENING, "a client of a later version is answered with one that the agent has")
async def _(peer: LinePeer) -> str:
    found = await EditorCaller(peer).result("initialize", {**HELLO, "protocolVersion": 999})
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


@clause(OPENING, "each mode that is offered can be set, and no other")
async def _(peer: LinePeer) -> str:
    caller = EditorCaller(peer)
    await caller.result("initialize", HELLO)
    found = await caller.result("session/new", {"cwd": peer.cwd, "mcpServers": []})
    if not (modes := found.get("modes")):
        raise Untried("it offers no modes")
    names = [mode.get("id") for mode in modes.get("availableModes") or []]
    expect(modes.get("currentModeId") in names, modes, "the current mode is none of them")
    for name in names:
        await caller.result("session/set_mode", {"sessionId": found["sessionId"], "modeId": name})
    refusal(await caller.call("session/set_mode", {"sessionId": found["sessionId"], "modeId": "conform-no-such-mode"}))
    return shown(names)


@clause(OPENING, "each value of a configuration option can be set, for its session alone, and no other")
async def _(peer: LinePeer) -> str:
    caller = EditorCaller(peer)
    await caller.result("initialize", HELLO)
    first, second = [await caller.result("session/new", {"cwd": peer.cwd, "mcpServers": []}) for _session in range(2)]
    if not (options := first.get("configOptions")):
        raise Untried("it offers no options")

    async def given(where: dict[str, Any], option: dict[str, Any], value: Any) -> dict[str, Any]:
        found = await caller.result("session/set_config_option", configuring(where, option, value))
        return {one.get("id"): one.get("currentValue") for one in found.get("configOptions") or []}

    there = {option.get("id"): option.get("currentValue") for option in options}
    expect(None not in there.values(), there, "one has no value")
    for option in options:
        choices = [one for each in option.get("options") or [] for one in each.get("options") or [each]]
        values = [True, False] if option.get("type") == "boolean" else [one.get("value") for one in choices]
        expect(option.get("currentValue") in values, option, "its value is none of them")
        same = await given(first, option, option["currentValue"])
        expect(same == there, same, "setting what is set is not answered with all options as they were")
        for value in [*values, option["currentValue"]]:
            found = await given(first, option, value)
            expect(found.get(option["id"]) == value, found, f"{value!r} was set and is not there")
        refusal(await caller.call("session/set_config_option", configuring(first, option, "conform-no-such-value")))
        await given(first, option, next((value for value in values if value != option["currentValue"]), values[0]))
        unlike = next((one for one in options if one is not option), option)
        found = await given(second, unlike, unlike["currentValue"])
        expect(found == there, found, "another session has what was set in the first")
        await given(first, option, option["currentValue"])
    return shown(list(there))


def configuring(where: dict[str, Any], option: dict[str, Any], value: Any) -> dict[str, Any]:
    kind = {"type": "boolean"} if option.get("type") == "boolean" else {}
    return {"sessionId": where["sessionId"], "configId": option.get("id"), "value": value, **kind}


@clause(OPENING, "an MCP server that is named is started as it says, and its tools are offered to the model")
async def _(peer: LinePeer) -> str:
    server = {"name": "conform", "command": sys.executable, "args": ["-c", SERVER, "pelican"]}
    named = {"cwd": peer.cwd, "mcpServers": [{**server, "env": [{"name": "CONFORM", "value": "heron"}]}]}
    caller, _ident = await session(peer)
    opened = await caller.call("session/new", named)
    if "error" in opened:
        raise Untried(f"it takes no MCP servers: {shown(opened['error'])}")
    ident = opened["result"]["sessionId"]
    for _ in range(2):  # a server may be started beside the first prompt
        await answered(caller, ident)
        if not peer.model.asked:
            raise Untried("it did not ask the model that it was pointed at")
    offered = [name for request in peer.model.asked for name in tools_of(request.body)]
    found = [name for name in offered if "pelican_heron" in name]
    if not found and any(re.search("search.*tool|tool.*search", name, re.IGNORECASE) for name in offered):
        raise Untried("its model searches for tools, which are not named before")
    expect(bool(found), sorted(set(offered)), "its tool is not among these")
    return found[0]


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
    await caller.settled(0.5)
    expect(message_text(caller) == before, message_text(caller), "more text came after the response")
    once = ANSWER in before and before.count(ANSWER[:4]) == 1
    expect(once if peer.model.asked else before != "", before, f"the text is not {ANSWER!r}")
    return shown(before)


@clause(TURN, "every session/update of a turn names its session")
async def _(peer: LinePeer) -> str:
    caller, first = await session(peer)
    for ident in (await another(caller), first):
        at = len(caller.notices("session/update"))
        await answered(caller, ident)
        turn = caller.notices("session/update")[at:]
        for notice in turn:
            ours = notice.get("sessionId") == ident or notice["update"]["sessionUpdate"] not in OF_TURN
            expect(ours, notice, "it is another's")
        calls([notice["update"] for notice in turn])
    return f"{len(turn)} updates"


def calls(updates: list[dict[str, Any]], questions: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The calls of a turn that has ended, and their last statuses. A question with a title reports its call, too."""
    asked = [one["toolCall"]["toolCallId"] for one in questions if one["toolCall"].get("title")]
    known: dict[str, Any] = {}
    for update in updates:
        if not str(update.get("sessionUpdate")).startswith("tool_call"):
            continue
        ident, new = update.get("toolCallId"), update["sessionUpdate"] == "tool_call"
        expect(isinstance(ident, str) and ident != "", update, "it has no toolCallId")
        expect(ident not in known or not new, update, "it has another's id")
        expect(ident in known or new or ident in asked, update, "the call was not reported")
        known[str(ident)] = update.get("status", known.get(str(ident)))
    expect(all(status in ("completed", "failed") for status in known.values()), known, "a call did not end")
    return known


@clause(TURN, "a second prompt in the session is answered too, by a model that knows the first")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident, WORDS)
    return await goes_on(caller, ident, ANSWER, WORDS)


@clause(
    TURN,
    "characters of every kind come to the model and back",
    f"[[reply]]\ntext = {json.dumps(WORDS, ensure_ascii=False)}\ntimes = 'always'\n",
)
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident, WORDS)
    remembers(peer, WORDS)
    expect(WORDS in message_text(caller), message_text(caller), "the text of the model is another")
    return shown(WORDS)


@clause(
    TURN,
    "a megabyte comes to the model and back",
    f'[[reply]]\ntext = "{NUMBERS}"\npiece = 4000\ntimes = "always"\n',
)
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    await answered(caller, ident, f"{'hello 789 ' * (MEGABYTE // 10)} the-end")
    remembers(peer, "789  the-end")
    expect(
        NUMBERS in message_text(caller), len(message_text(caller)), f"of {len(NUMBERS)} characters came another number"
    )
    return f"{len(NUMBERS)} bytes"


@clause(TURN, "all blocks of a prompt reach the model: text, links, and what initialize offers")
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    able = (peer.lines[0].get("result") or {}).get("agentCapabilities") or {}
    able = able.get("promptCapabilities") or {}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "First."}, {"type": "text", "text": "heron-text"}]
    link = in_workspace(peer, "heron-link.txt")
    write_atomic(link, b"heron-linked\n")
    blocks.append({"type": "resource_link", "uri": f"file://{link}", "name": "heron-link.txt"})
    wanted = ["First.", "heron-text", "heron-link.txt"]
    if able.get("embeddedContext"):
        resource = {"uri": f"file://{peer.cwd}/heron.md", "text": "heron-resource", "mimeType": "text/markdown"}
        blocks.append({"type": "resource", "resource": resource})
        wanted.append("heron-resource")
    if able.get("image"):
        blocks.append({"type": "image", "data": PIXEL, "mimeType": "image/png"})
    await caller.result("session/prompt", {"sessionId": ident, "prompt": blocks})
    for words in wanted:
        remembers(peer, words)
    pictures = ("image_url", "input_image", '"image"', "inlineData", PIXEL[:20])
    seen = any(mark in json.dumps(request.body) for request in peer.model.asked for mark in pictures)
    expect(seen or not able.get("image"), able, "the image that it offers to read did not reach the model")
    return f"{len(blocks)} blocks"


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
    Working(caller, ident, ALLOW)
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


@clause(CANCEL, "session/cancel of an unknown session changes nothing, nor does it end another's prompt", SLOW + PLAIN)
async def _(peer: LinePeer) -> str:
    caller, ident = await session(peer)
    other = await another(caller)
    running = await under_way(caller, ident)
    for wrong in ("conform-no-such-session", other):
        await caller.notify("session/cancel", {"sessionId": wrong})
    await caller.settled(0.5)
    ended = [line.get("result") or line for line in peer.lines if line.get("id") == running and "method" not in line]
    wrong_end = [line for line in ended if peer.model.asked or line.get("stopReason") == "cancelled"]
    expect(not wrong_end, wrong_end, "the prompt of another session ended")
    await caller.notify("session/cancel", {"sessionId": ident})
    return shown((await caller.response(running, "session/prompt")).get("result"))


@clause(CANCEL, "after the response to a cancelled prompt nothing more comes of it", SLOW * 3 + PLAIN)
async def _(peer: LinePeer) -> str:
    caller, _ident, _line = await _cancelled(peer)
    before = message_text(caller)
    await caller.settled(0.5)
    expect(message_text(caller) == before, message_text(caller), "more text came")
    return "nothing"


Choosing = Callable[[list[dict[str, Any]]], dict[str, Any] | None]


def choose(kind: str) -> Choosing:
    def outcome(options: list[dict[str, Any]]) -> dict[str, Any] | None:
        fitting = [one["optionId"] for one in options if str(one.get("kind", "")).startswith(kind)]
        return {"outcome": {"outcome": "selected", "optionId": fitting[0]}} if fitting else None

    return outcome


def cancelled(options: list[dict[str, Any]]) -> dict[str, Any] | None:
    return {"outcome": {"outcome": "cancelled"}}


ALLOW, REJECT, CANCELLED = choose("allow"), choose("reject"), cancelled


class Working:
    """A prompt whose model calls the shell once; of an agent that asks no model, any prompt. Questions about calls are
    answered as `outcome` says; of files, what is written is taken, and there is none to read."""

    def __init__(self, caller: Caller, ident: str, outcome: Choosing) -> None:
        self.caller, self.ident, self.peer = caller, ident, caller.peer
        self.questions: list[dict[str, Any]] = []
        self.running: int | str = 0
        self._outcome = outcome
        self.files: list[dict[str, Any]] = []
        """What it asked of files."""
        self.terminals: dict[str, tuple[str, int]] = {}
        """The commands that it had run and has not released: what each wrote, and its exit code."""
        self.started: list[str] = []
        """All of them."""
        self.hasty: list[Any] = []
        """What it did before it was answered."""
        self._before = len(caller.notices("session/update"))
        caller.offers = self._offered

    async def _offered(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method.startswith("fs/"):
            self.files.append(params)
            return {} if method == "fs/write_text_file" else None
        if method.startswith("terminal/"):
            return await self._terminal(method, params)
        if method != "session/request_permission":
            return None
        self.questions.append(params)
        await self.caller.settled(0.2)
        self.hasty += self.done()
        if self._outcome is CANCELLED:
            await self.caller.notify("session/cancel", {"sessionId": self.ident})
        return self._outcome(_options(params))

    async def _terminal(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Commands of the kit end soon: each is run to its end when it is asked for."""
        if method == "terminal/create":
            words, env = [params["command"], *(params.get("args") or [])], params.get("env") or []
            words = words if params.get("args") else ["sh", "-c", words[0]]
            place, more = params.get("cwd") or self.peer.cwd, {one["name"]: one["value"] for one in env}
            async with await start(words, cwd=place, env={**os.environ, **more}, stderr="stdout") as child:
                output = b""
                while got := await child.stdio.read():
                    output += got
                self.started.append(f"conform-{len(self.started)}")
                self.terminals[self.started[-1]] = (output.decode(errors="replace"), await child.wait())
            return {"terminalId": self.started[-1]}
        if (found := self.terminals.get(params["terminalId"])) is None:
            return None
        ended = {"exitCode": found[1], "signal": None}
        if method == "terminal/release":
            del self.terminals[params["terminalId"]]
        return {"output": found[0], "truncated": False, "exitStatus": ended} if method == "terminal/output" else ended

    @classmethod
    async def begun(
        cls, peer: LinePeer, command: str, outcome: Choosing = ALLOW, hello: dict[str, Any] = HELLO
    ) -> "Working":
        caller, ident = await session(peer, hello)
        await answered(caller, ident)
        found = cls(caller, ident, outcome)
        if peer.model.asked:
            play(peer, shell_call(peer, command))
        found.running = await caller.send("session/prompt", prompt(ident, "Run it."))
        return found

    @classmethod
    async def ended(cls, *given: Any, **more: Any) -> "Working":
        found = await cls.begun(*given, **more)
        line = await found.response()
        expect("result" in line, line, "the prompt ended with an error")
        return found

    async def response(self) -> dict[str, Any]:
        return await self.caller.response(self.running, "session/prompt")

    @property
    def updates(self) -> list[dict[str, Any]]:
        """Those about calls."""
        notices = self.caller.notices("session/update")[self._before :]  # not of an earlier prompt
        found = [notice.get("update") or {} for notice in notices]
        return [one for one in found if str(one.get("sessionUpdate")).startswith("tool_call")]

    def done(self) -> list[Any]:
        """What was done of what it asked for."""
        about = [(question.get("toolCall") or {}).get("toolCallId") for question in self.questions]
        ended = [one for one in self.updates if one.get("toolCallId") in about and one.get("status") == "completed"]
        made = [in_workspace(self.peer, "heron")]
        return [*filter(os.path.exists, made), *([] if self.peer.model.asked else ended)]

    async def until(self, seen: Callable[[], bool]) -> None:
        """Take what comes until this is so."""
        with contextlib.suppress(TimeoutError):
            async with within(self.peer.patience):
                while not seen():
                    await self.caller.settled(0.1)
        if not seen():
            raise Untried("its tool did not begin")


def play(peer: LinePeer, call: CallLine) -> None:
    """Have the model make this call once, and end."""
    last = ScriptedReply(text=ANSWER, times="always")
    peer.model.player = Player(Script(reply=(ScriptedReply(call=(call,)), last)))


def write_call(peer: LinePeer) -> CallLine:
    for request in peer.model.asked:
        for name, schema in tools_of(request.body).items():
            fields = {
                next((word for word in WRITING if word in field.lower()), ""): field for field in schema["properties"]
            }
            if {"path", "content"} <= fields.keys() and re.search("write|create", name, re.IGNORECASE):
                given = {fields["path"]: in_workspace(peer, "heron"), fields["content"]: "pelican"}
                return CallLine(name=name, arguments={**sample({**schema, "type": "object"}), **given})
    raise Untried("it offers its model no tool that writes a file")


def shell_call(peer: LinePeer, command: str) -> CallLine:
    for request in peer.model.asked:
        for name, schema in tools_of(request.body).items():
            field = (schema.get("properties") or {}).get("command")
            if isinstance(field, dict) and re.search("bash|shell|command|exec|terminal", name, re.IGNORECASE):
                text = ["sh", "-c", command] if field.get("type") == "array" else command
                return CallLine(name=name, arguments={**sample({**schema, "type": "object"}), "command": text})
    raise Untried("it offers its model no tool that runs a command")


def in_workspace(peer: LinePeer, name: str) -> str:
    return os.path.join(peer.cwd, name)


@clause(TOOLS, "what a tool says is given to the model")
async def _(peer: LinePeer) -> str:
    await Working.ended(peer, SAYS)
    return remembers(peer, OUTPUT)


@clause(TOOLS, "a call is reported with an id and a title before it is updated, and ends before the response")
async def _(peer: LinePeer) -> str:
    work = await Working.ended(peer, SAYS)
    known = calls(work.updates, work.questions)
    ran = OUTPUT in json.dumps([request.body for request in peer.model.asked])
    expect(bool(known) or not ran, peer.lines[-1], "the tool ran, and no call was reported")
    return shown(known)


@clause(TOOLS, "two calls have two ids")
async def _(peer: LinePeer) -> str:
    work = await Working.ended(peer, "true")
    if peer.model.asked:
        play(peer, shell_call(peer, "echo again"))
    await work.caller.result("session/prompt", prompt(work.ident, "Again."))
    found = [one.get("toolCallId") for one in work.updates if one.get("sessionUpdate") == "tool_call"]
    expect(len(set(found)) == len(found), found, "they are the same")
    return shown(found)


@clause(TOOLS, "a question is about its session and a call that was reported; its options have an id each")
async def _(peer: LinePeer) -> str:
    work = await Working.ended(peer, "touch heron")
    if not work.questions:
        raise Untried("it did not ask")
    known = [one.get("toolCallId") for one in work.updates]
    for question in work.questions:
        expect(question.get("sessionId") == work.ident, question, "the session is another")
        call = question.get("toolCall") or {}
        expect(not known or call["toolCallId"] in known, question, f"the calls are {known}")
        options = question.get("options") or []
        expect(bool(options), question, "it has no options")
        expect(len({one["optionId"] for one in options}) == len(options), options, "two have one id")
    return f"{len(work.questions)} asked"


@clause(TOOLS, "a call that is allowed is carried out, and asked about once")
async def _(peer: LinePeer) -> str:
    work = await Working.ended(peer, "touch heron")
    if not work.questions:
        raise Untried("it did not ask")
    expect(bool(work.done()) or not peer.model.asked, work.updates[-1:], "it was not done")
    expect(not work.hasty, work.hasty, "it was done before it was allowed")
    expect(len(work.questions) == 1, work.questions, "it was asked about more than once")
    return "done"


@clause(TOOLS, "a call that is rejected is not carried out, and the turn ends by itself")
async def _(peer: LinePeer) -> str:
    return await _stays_undone(await Working.ended(peer, "touch heron", REJECT))


@clause(TOOLS, "a question that the client answers with an error is a no")
async def _(peer: LinePeer) -> str:
    work = await Working.begun(peer, "touch heron", lambda options: None)
    await work.response()
    return await _stays_undone(work)


@clause(TOOLS, "a question that the client answers as cancelled is a no")
async def _(peer: LinePeer) -> str:
    work = await Working.begun(peer, "touch heron", lambda options: {"outcome": {"outcome": "cancelled"}})
    await work.response()
    return await _stays_undone(work)


@clause(TOOLS, "session/cancel while a question is open ends the turn as cancelled, and the call is not carried out")
async def _(peer: LinePeer) -> str:
    work = await Working.begun(peer, "touch heron", CANCELLED)
    line = await work.response()
    await _stays_undone(work)
    expect((line.get("result") or {}).get("stopReason") == "cancelled", line, "the stopReason is another")
    return "cancelled"


async def _stays_undone(work: Working) -> str:
    if not work.questions:
        raise Untried("it did not ask")
    await work.caller.settled()
    expect(not work.done(), work.questions[0], "it was carried out")
    return "not done"


@clause(TOOLS, "a client that offers files is asked for them by absolute paths, and may refuse")
async def _(peer: LinePeer) -> str:
    able = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}
    caller, ident = await session(peer, {**HELLO, "clientCapabilities": able})
    work = Working(caller, ident, ALLOW)
    await answered(caller, ident)
    if peer.model.asked:
        play(peer, write_call(peer))
        await caller.call("session/prompt", prompt(ident, "Write it."))
    for params in work.files:
        expect(os.path.isabs(str(params.get("path"))), params, "the path is not absolute")
        expect(params.get("sessionId") == ident, params, "the session is another")
    if not work.files:
        raise Untried("it asked for no file")
    return shown(work.files)


@clause(TOOLS, "a client that offers terminals is asked to run commands there, and each is released")
async def _(peer: LinePeer) -> str:
    work = await Working.ended(peer, SAYS, hello={**HELLO, "clientCapabilities": {**CAPABILITIES, "terminal": True}})
    if not work.started:
        raise Untried("it asked for no terminal")
    blocks = [one for update in work.updates for one in update.get("content") or []]
    shows = [one["terminalId"] for one in blocks if one.get("type") == "terminal"]
    expect(set(shows) <= set(work.started), shows, f"one is none of {work.started}")
    await work.caller.settled()
    expect(not work.terminals, list(work.terminals), "they were not released")
    return remembers(peer, OUTPUT)


@clause(TOOLS, "session/cancel while a tool runs ends the turn as cancelled, and the tool")
async def _(peer: LinePeer) -> str:
    alive = in_workspace(peer, "heron")
    work = await Working.begun(peer, "while true; do touch heron; sleep 0.1; done")
    if not peer.model.asked:
        raise Untried("it did not ask the model that it was pointed at")
    await work.until(lambda: os.path.exists(alive))
    await work.caller.notify("session/cancel", {"sessionId": work.ident})
    line = await work.response()
    expect((line.get("result") or {}).get("stopReason") == "cancelled", line, "the stopReason is another")
    await asyncio.sleep(0.3)
    os.remove(alive)
    await asyncio.sleep(0.5)
    expect(not os.path.exists(alive), line, "the tool went on")
    return "both ended"


@clause(
    STORED,
    "two sessions work at once, each with its own memory",
    '[[reply]]\nwhen = "heron"\ntext = "Slow."\ndelay = 600\n' + PLAIN,
)
async def _(peer: LinePeer) -> str:
    caller, first = await session(peer)
    second = await another(caller)
    running = await under_way(caller, first, "heron")
    beside = await caller.send("session/prompt", prompt(second, "pelican"))
    if peer.model.asked:
        await caller.settled(0.1)
    else:  # its turns end by themselves: the second is to outlive the first
        await caller.notify("session/cancel", {"sessionId": first})
    found = result_of(await caller.response(beside, "session/prompt"), "session/prompt")
    expect(found.get("stopReason") == "end_turn", found, "the second did not end by itself")
    apart(caller, second)
    await caller.notify("session/cancel", {"sessionId": first})
    return shown((await caller.response(running, "session/prompt")).get("result"))


@clause(STORED, "what was said in a session is not known in another")
async def _(peer: LinePeer) -> str:
    caller, first = await session(peer)
    await answered(caller, first, "heron")
    second = await another(caller)
    await answered(caller, second, "pelican")
    return apart(caller, second)


def apart(caller: Caller, second: str) -> str:
    """What is said in the second session has nothing of the first."""
    mixed = [json.dumps(request.body) for request in caller.peer.model.asked]
    expect(not any("heron" in body and "pelican" in body for body in mixed), mixed[-1:], "the memory is shared")
    heard = [json.dumps(one) for one in caller.notices("session/update") if one.get("sessionId") == second]
    expect(not any("heron" in each for each in heard), heard[-1:], "the memory is shared")
    return f"{len(heard)} updates"


async def talked(peer: LinePeer, *path: str) -> tuple[Caller, str]:
    """A session with one prompt and its answer, of an agent that offers what this path of its capabilities names."""
    caller, ident = await session(peer)
    able: Any = (peer.lines[0].get("result") or {}).get("agentCapabilities") or {}
    for name in path:
        able = able.get(name) if isinstance(able, dict) else None
    if able is None or able is False:
        method = f"session/{'load' if path[-1] == 'loadSession' else path[-1]}"
        refused = await caller.call(method, {"sessionId": ident, "cwd": peer.cwd, "mcpServers": []})
        refusal(refused)
        raise Untried(f"it does not offer {path[-1]}")
    await answered(caller, ident, "heron")
    return caller, ident


@clause(STORED, "session/load sends the conversation before its response, and the model knows it after")
async def _(peer: LinePeer) -> str:
    caller, ident = await talked(peer, "loadSession")
    await answered(caller, await another(caller), "pelican")
    await caller.settled()
    await loaded(caller, ident, message_of(caller, ident))
    return await goes_on(caller, ident, "heron")


def message_of(caller: Caller, ident: str) -> str:
    updates = [one.get("update") or {} for one in caller.notices("session/update") if one.get("sessionId") == ident]
    return ANSWER if caller.peer.model.asked else text_of(updates, "agent_message_chunk")


async def loaded(caller: Caller, ident: str, answer: str) -> None:
    at = len(caller.peer.lines)
    await caller.result("session/load", {"sessionId": ident, "cwd": caller.peer.cwd, "mcpServers": []})
    notices = [line["params"] for line in caller.peer.lines[at:] if line.get("method") == "session/update"]
    updates = [one.get("update") or {} for one in notices]
    expect(all(one.get("sessionId") == ident for one in notices), notices, "an update names another session")
    for kind, words in (("user_message_chunk", "heron"), ("agent_message_chunk", answer)):
        text = text_of(updates, kind)
        expect(words in text, text, f"{words!r} is not among the {kind}s")
        expect("pelican" not in text, text, "it is of another session")


@clause(STORED, "session/load has the conversation in a new process, too")
async def _(peer: LinePeer) -> str:
    caller, ident = await talked(peer, "loadSession")
    answer = message_of(caller, ident)
    peer.close_input()
    await peer.end()
    async with peer.again() as later:
        later.model = peer.model
        caller = EditorCaller(later)
        await caller.result("initialize", HELLO)
        await loaded(caller, ident, answer)
        return await goes_on(caller, ident, "heron")


@clause(STORED, "a session that does not exist is not loaded")
async def _(peer: LinePeer) -> str:
    caller, _ident = await talked(peer, "loadSession")
    unknown = {"sessionId": "00000000-0000-4000-8000-000000000000", "cwd": peer.cwd, "mcpServers": []}
    return refusal(await caller.call("session/load", unknown))


@clause(STORED, "session/resume goes on with what the model knows, and sends nothing again")
async def _(peer: LinePeer) -> str:
    caller, ident = await talked(peer, "sessionCapabilities", "resume")
    await caller.settled()
    before = message_text(caller)
    await caller.result("session/resume", {"sessionId": ident, "cwd": peer.cwd, "mcpServers": []})
    await caller.settled()
    expect(message_text(caller) == before, message_text(caller), "the conversation was sent again")
    return await goes_on(caller, ident, "heron")


@clause(STORED, "session/list has the sessions of its directory once each, page by page")
async def _(peer: LinePeer) -> str:
    caller, ident = await talked(peer, "sessionCapabilities", "list")
    idents = [ident]
    for _ in range(3):
        idents.append(await another(caller))
        await answered(caller, idents[-1])
    here, cursors = await _listed(caller, {"cwd": peer.cwd})
    expect(len(set(here)) == len(here), here, "one is there twice")
    expect(set(idents) <= set(here), here, f"one of {idents} is missing")
    elsewhere, _ = await _listed(caller, {"cwd": os.path.dirname(peer.cwd)})
    expect(not set(elsewhere) & set(here), elsewhere, "sessions are listed for another directory too")
    return f"{len(here)} sessions, {cursors} more pages"


async def _listed(caller: Caller, params: dict[str, Any]) -> tuple[list[str], int]:
    found: list[str] = []
    cursors: list[str] = []
    while True:
        page = await caller.result("session/list", {**params, **({"cursor": cursors[-1]} if cursors else {})})
        found += [one["sessionId"] for one in page["sessions"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found, len(cursors)
        expect(
            isinstance(cursor, str) and cursor not in cursors, page, "the nextCursor is no text, or one that was there"
        )
        cursors.append(cursor)


@clause(STORED, "a session that was closed answers no prompt")
async def _(peer: LinePeer) -> str:
    caller, ident = await talked(peer, "sessionCapabilities", "close")
    await caller.result("session/close", {"sessionId": ident})
    return refusal(await caller.call("session/prompt", prompt(ident)))


async def _cancelled(peer: LinePeer) -> tuple[Caller, str, dict[str, Any]]:
    """A session whose prompt was cancelled, and how that was answered."""
    caller, ident = await session(peer)
    running = await under_way(caller, ident)
    await caller.notify("session/cancel", {"sessionId": ident})
    at = time.monotonic()
    line = await caller.response(running, "session/prompt")
    ended = (line.get("result") or {}).get("stopReason") == "end_turn" and time.monotonic() - at < NATURAL
    if ended and not peer.model.asked:
        raise Untried("its turn ended by itself meanwhile")
    return caller, ident, line


add_shared(KIT, HELLO)


@clause("Messages", "every message has the shape that the protocol publishes, and asks for what was offered")
async def _(peer: LinePeer) -> str:
    """With all that was seen in the clauses before. Alone, it looks at what most programs have."""
    with contextlib.suppress(Untried, Broken):
        work = await Working.ended(peer, SAYS)
        caller, here = work.caller, {"sessionId": work.ident, "cwd": peer.cwd, "mcpServers": []}
        opened = next(line["result"] for line in peer.lines if "sessionId" in (line.get("result") or {}))
        for mode in (opened.get("modes") or {}).get("availableModes") or []:
            await caller.call("session/set_mode", {**here, "modeId": mode["id"]})
        for option in opened.get("configOptions") or []:
            await caller.call("session/set_config_option", configuring(opened, option, option["currentValue"]))
        able = (peer.lines[0].get("result") or {}).get("agentCapabilities") or {}
        offers = {"load": able.get("loadSession"), **(able.get("sessionCapabilities") or {})}
        for name in ("list", "load", "resume", "close"):
            if offers.get(name) not in (None, False):
                await caller.call(f"session/{name}", {} if name == "list" else here)
        await caller.settled()
    return all_whole(peer)
