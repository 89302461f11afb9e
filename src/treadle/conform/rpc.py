"""JSON-RPC 2.0 over lines, for the protocols that are built on it, and the clauses that they share."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from treadle.conform.kit import Broken, Candidate, Kit, expect, started
from treadle.conform.lines import LinePeer, shown

METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
FRAMING = "JSON-RPC"


class Caller:
    """One end of the conversation. What the program asks of us is answered with an error, and noted."""

    def __init__(self, peer: LinePeer) -> None:
        self.peer = peer
        self.asked: list[str] = []
        """The methods that the program called."""
        self._next = 0

    async def send(
        self, method: str, params: dict[str, Any] | None = None, ident: int | str | None = None
    ) -> int | str:
        if ident is None:
            self._next += 1
            ident = self._next
        await self.peer.say({"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}})
        return ident

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.peer.say({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def call(self, method: str, params: dict[str, Any] | None = None, ident: int | str | None = None) -> Any:
        """The whole response, with `result` or `error`."""
        return await self.response(await self.send(method, params, ident), method)

    async def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        line = await self.call(method, params)
        if not isinstance(line.get("result"), dict):
            raise Broken(f"{method} failed: {shown(line.get('error', line))}")
        found: dict[str, Any] = line["result"]
        return found

    async def response(self, ident: int | str, method: str) -> dict[str, Any]:
        while True:
            line = await self.peer.hear(f"the response to {method}")
            if "method" in line and "id" in line:
                self.asked.append(str(line["method"]))
                refusal = {"code": METHOD_NOT_FOUND, "message": "the conformance kit offers nothing"}
                await self.peer.say({"jsonrpc": "2.0", "id": line["id"], "error": refusal})
            elif "method" not in line:
                expect(
                    line.get("id") == ident and type(line.get("id")) is type(ident), line, f"its id is not {ident!r}"
                )
                expect(("result" in line) != ("error" in line), line, "it has not either a result or an error")
                return line

    def notices(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the notifications so far."""
        return [line.get("params") or {} for line in self.peer.lines if line.get("method") == method]


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
        return shown((await Caller(peer).call("initialize", hello, "an-id"))["id"])

    @clause(FRAMING, "every message says that it is JSON-RPC 2.0")
    async def _(caller: Caller) -> str:
        lines = caller.peer.lines
        expect(all(line.get("jsonrpc") == "2.0" for line in lines), lines[-1], "one does not")
        return f"{len(lines)} messages"

    @clause(FRAMING, "an unknown method is refused with -32601")
    async def _(caller: Caller) -> str:
        return refusal(await caller.call("conform/noSuchMethod"), METHOD_NOT_FOUND)

    @clause(FRAMING, "an unknown notification has no answer")
    async def _(caller: Caller) -> str:
        await caller.notify("conform/noSuchNotice")
        refusal(await caller.call("conform/noSuchMethod"))
        return "none"

    @clause(FRAMING, "a line that is no JSON does not end the conversation")
    async def _(caller: Caller) -> str:
        await caller.peer.say(b"{oh no\n")
        ident = await caller.send("conform/noSuchMethod")
        line = await caller.peer.until(lambda line: line.get("id") == ident, "the response to the next request")
        return refusal(line)

    @whole_clause(FRAMING, "unknown fields are ignored")
    async def _(peer: LinePeer) -> str:
        await Caller(peer).result("initialize", {**hello, "xLater": {"deep": [1, None]}})
        return "accepted"

    @clause(FRAMING, "the process ends when its input ends")
    async def _(caller: Caller) -> str:
        caller.peer.close_input()
        return f"exit code {await caller.peer.end()}"
