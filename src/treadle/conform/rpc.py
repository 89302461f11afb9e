"""JSON-RPC 2.0 over lines, for the protocols that are built on it, and the clauses that they share."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from treadle.conform.kit import Broken, Candidate, Kit, expect, started
from treadle.conform.lines import LinePeer, shown
from treadle.io.tasks import within

PARSE_ERROR, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32601, -32602
FRAMING = "JSON-RPC"
MEGABYTE = 1_000_000


async def _nothing(method: str, params: dict[str, Any]) -> None:
    return None


class Caller:
    """One end of the conversation. What the program asks of us is noted, and answered by `offers` or with an error."""

    def __init__(self, peer: LinePeer) -> None:
        self.peer = peer
        self.asked: list[str] = []
        """The methods that the program called."""
        self.offers: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]] = _nothing
        self.offered: dict[str, Any] = {}
        """What `initialize` said that we offer."""
        self._next = 0
        self._open: dict[tuple[type, int | str], str] = {}
        """The methods without a response, by id and its type: in Python, but not in JSON, 1 and true are the same."""
        self._early: dict[int | str, dict[str, Any]] = {}

    async def send(
        self, method: str, params: dict[str, Any] | None = None, ident: int | str | None = None
    ) -> int | str:
        if ident is None:
            self._next += 1
            ident = self._next
        self._open[type(ident), ident] = method
        if method == "initialize":
            self.offered = (params or {}).get("clientCapabilities", {})
        await self.peer.say({"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}})
        return ident

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.peer.say({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def call(self, method: str, params: dict[str, Any] | None = None, ident: int | str | None = None) -> Any:
        """The whole response, with `result` or `error`."""
        return await self.response(await self.send(method, params, ident), method)

    async def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return result_of(await self.call(method, params), method)

    async def response(self, ident: int | str, method: str) -> dict[str, Any]:
        while ident not in self._early:
            await self._take(await self.peer.hear(f"the response to {method}"))
        return self._early.pop(ident)

    async def settled(self, seconds: float = 0.3) -> None:
        """Take what comes within this time: nothing may answer a request again."""
        with contextlib.suppress(TimeoutError):
            async with within(10 * seconds):  # one that never falls silent is heard for so long
                while (line := await self.peer.quiet(seconds)) is not None:
                    await self._take(line)

    async def _take(self, line: dict[str, Any]) -> None:
        if "method" in line and "id" in line:
            self.asked.append(str(line["method"]))
            self.heard(line)
            result = await self.offers(str(line["method"]), line.get("params") or {})
            refusal = {"code": METHOD_NOT_FOUND, "message": "the conformance kit offers nothing"}
            answer = {"error": refusal} if result is None else {"result": result}
            await self.peer.say({"jsonrpc": "2.0", "id": line["id"], **answer})
        elif "method" not in line:
            ident = line.get("id")
            known = isinstance(ident, int | str) and (type(ident), ident) in self._open
            expect(known, line, "its id is that of no request without a response")
            assert isinstance(ident, int | str)
            expect(("result" in line) != ("error" in line), line, "it has not either a result or an error")
            self.heard(line, self._open.pop((type(ident), ident)))
            self._early[ident] = line
        else:
            self.heard(line)

    def heard(self, line: dict[str, Any], asked: str = "") -> bool:
        """Whether the message is as the protocol publishes it; `asked` is the method that it answers."""
        return self.peer.watch.look(line, asked)

    async def listen(self, seconds: float) -> None:
        """Take all that comes within this time."""
        with contextlib.suppress(TimeoutError):
            async with within(seconds):
                while True:
                    await self.settled(seconds)

    def ended(self, ident: int | str) -> bool:
        """Whether the response has come."""
        return ident in self._early

    def notices(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the notifications so far."""
        return [line.get("params") or {} for line in self.peer.lines if line.get("method") == method]


def result_of(line: dict[str, Any], method: str) -> dict[str, Any]:
    found = {} if line.get("result", line) is None else line.get("result")  # one without fields may be null
    if not isinstance(found, dict):
        raise Broken(f"{method} failed: {shown(line.get('error', line))}")
    return found


def all_whole(peer: LinePeer) -> str:
    """Nothing was wrong with a message, in this clause or in those before."""
    wrong = peer.watch.wrong
    expect(not wrong, next(iter(wrong.values()), None), "; ".join(wrong))
    return f"{len(peer.lines)} messages"


def sample(schema: Any) -> Any:
    """A value that fits this JSON Schema, as far as its plain keywords say."""
    schema = schema if isinstance(schema, dict) else {}
    for plain in ("const", "default"):
        if plain in schema:
            return schema[plain]
    for first in ("enum", "anyOf", "oneOf", "type"):
        if isinstance(choices := schema.get(first), list) and choices:
            return choices[0] if first == "enum" else sample({"type": choices[0]} if first == "type" else choices[0])
    match schema.get("type"):
        case "object":
            fields = schema.get("properties") or {}
            return {name: sample(fields.get(name)) for name in schema.get("required") or []}
        case "array":
            return [sample(schema.get("items"))] * int(schema.get("minItems", 0))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean" | "null" as kind:
            return False if kind == "boolean" else None
    return "https://conform.example/" if schema.get("format") == "uri" else "conform"


def refusal(line: dict[str, Any], *codes: int) -> str:
    """What the error says; it must be a whole error object, with one of these codes if there are any."""
    error = line.get("error")
    expect(isinstance(error, dict), line, "it was not refused")
    assert isinstance(error, dict)
    whole = type(error.get("code")) is int and isinstance(error.get("message"), str)
    expect(whole, line, "the error has no whole code and message")
    expect(not codes or error["code"] in codes, line, f"the code is not {' or '.join(map(str, codes))}")
    return shown(error)


def add_shared(kit: Kit, hello: dict[str, Any]) -> None:
    """The clauses of JSON-RPC itself. `hello` are the parameters of `initialize`, which opens a conversation."""

    @contextlib.asynccontextmanager
    async def greeted(candidate: Candidate) -> AsyncIterator[Caller]:
        async with candidate.started() as peer:
            caller = Caller(peer)
            await caller.result("initialize", hello)
            yield caller

    clause, whole_clause = kit.opening(greeted), kit.opening(started)

    @whole_clause(FRAMING, "a response has the id of its request, also when that is a string")
    async def _(peer: LinePeer) -> str:
        return shown((await Caller(peer).call("initialize", hello, "54"))["id"])

    @clause(FRAMING, "every message says that it is JSON-RPC 2.0")
    async def _(caller: Caller) -> str:
        lines = caller.peer.lines
        expect(all(line.get("jsonrpc") == "2.0" for line in lines), lines[-1], "one does not")
        return f"{len(lines)} messages"

    @clause(FRAMING, "an unknown method is refused with -32601")
    async def _(caller: Caller) -> str:
        refusal(await caller.call("_conform/noSuchMethod"), METHOD_NOT_FOUND)
        return refusal(await caller.call("conform/noSuchMethod"), METHOD_NOT_FOUND)

    @clause(FRAMING, "an unknown notification has no answer")
    async def _(caller: Caller) -> str:
        for name in ("_conform/noSuchNotice", "conform/noSuchNotice"):
            await caller.notify(name)
        refusal(await caller.call("conform/noSuchMethod"))
        return "none"

    @clause(FRAMING, "a line that is no JSON does not end the conversation")
    async def _(caller: Caller) -> str:
        await caller.peer.say(b"{oh no\n")
        ident = await caller.send("conform/noSuchMethod")
        line = await caller.peer.until(lambda line: line.get("id") == ident, "the response to the next request")
        for each in caller.peer.lines:
            if "id" in each and each["id"] is None:
                refusal(each, PARSE_ERROR)
        return refusal(line)

    @clause(FRAMING, "a line that is no object, and a response to nothing, do not end the conversation")
    async def _(caller: Caller) -> str:
        await caller.peer.say(b"[]\n", b"7\n", {"jsonrpc": "2.0", "id": "nothing", "result": {}})
        ident = await caller.send("conform/noSuchMethod")
        return refusal(
            await caller.peer.until(lambda line: line.get("id") == ident, "the response to the next request")
        )

    @clause(FRAMING, "two requests in one write, one of them with the id 0, have one response each")
    async def _(caller: Caller) -> str:
        lines: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": ident, "method": "conform/noSuchMethod", "params": {}} for ident in (0, "b")
        ]
        await caller.peer.say(*lines)
        for _ in lines:
            await caller.peer.until(lambda line: line.get("id") in (0, "b"), "the responses")
        await caller.peer.quiet(0.3)
        found = [line.get("id") for line in caller.peer.lines if line.get("id") in (0, "b")]
        expect(sorted(map(str, found)) == ["0", "b"], found, "one was answered twice, or not")
        return shown(found)

    @clause(FRAMING, "a request of a megabyte that comes in pieces is read")
    async def _(caller: Caller) -> str:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": "big", "method": "conform/noSuchMethod", "params": {"x": "y" * MEGABYTE}}
        )
        for at in range(0, len(body), MEGABYTE // 3):
            await caller.peer.write(body[at : at + MEGABYTE // 3].encode())
            await asyncio.sleep(0.02)
        await caller.peer.write(b"\n")
        return refusal(await caller.peer.until(lambda line: line.get("id") == "big", "the response to it"))

    @whole_clause(FRAMING, "unknown fields are ignored")
    async def _(peer: LinePeer) -> str:
        await Caller(peer).result("initialize", {**hello, "xLater": {"deep": [1, None]}})
        return "accepted"

    @clause(FRAMING, "the process ends when its input ends")
    async def _(caller: Caller) -> str:
        caller.peer.close_input()
        return f"exit code {await caller.peer.end()}"
