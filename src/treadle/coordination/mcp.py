"""The coordination ledger over the Model Context Protocol: one connected client, whatever the transport."""

from __future__ import annotations

from treadle.coordination import repository, tools
from treadle.coordination.claims import Claims
from treadle.coordination.identity import Agents, current
from treadle.coordination.planning import Planning
from treadle.coordination.seats import Seats
from treadle.errors import TreadleError
from treadle.light import TYPE_CHECKING
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from treadle.wire.common.schema import faults
from treadle.wire.mcp.revisions import CAPABILITIES, META, STATELESS, done, failed, stateless, welcome

if TYPE_CHECKING:
    from typing import Any

NAME = "heimdall-ledger-mcp"
VERSION = "1.0.0"
EXTENDED_VERSION = "1.1.0"
INSTRUCTIONS = (
    "Several agents work in this repository. Before you change files, make_claim on them; if it is refused, somebody"
    " else is at work there: read_claims says who and until when. release_claim when you are done. append_decision for"
    " what others must know."
)


class Server:
    """One client's conversation: `handle` is what `jsonrpc.reply` calls."""

    def __init__(self, planning: Planning, *, extended: bool = False) -> None:
        self.planning = planning
        self.tools = {tool.name: tool for tool in (tools.ALL if extended else tools.SIX)}
        self.version = EXTENDED_VERSION if extended else VERSION
        self.client = "mcp-client"
        self.client_version = ""
        self.seats = Seats(planning, current(planning.project))
        self.agents = Agents(planning)
        found = repository.find(planning.project)
        self.claims = Claims(planning, found.top if found else planning.project)
        self._seen: dict[str, float] = {}

    def close(self) -> None:
        self.seats.leave()

    def handle(self, method: str, params: dict[str, Any]) -> Any:
        meta = stateless(params)
        if meta is None:
            return self._initialize(params) if method == "initialize" else self._do(method, params)
        self._introduce(meta.get(f"{META}clientInfo"))
        result = self._discovered() if method == "server/discover" else self._do(method, params)
        if method in ("server/discover", "tools/list"):
            result = {**result, "ttlMs": 0, "cacheScope": "private"}
        info = {"name": NAME, "version": self.version}
        return {**result, "resultType": "complete", "_meta": {f"{META}serverInfo": info}}

    def _do(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "ping" or method.startswith("notifications/"):
            return {}
        if method == "tools/list":
            return {"tools": [tool.listed() for tool in self.tools.values()]}
        if method == "tools/call":
            return self._call(params)
        raise Fault(METHOD_NOT_FOUND, f"unknown method: {method}")

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._introduce(params.get("clientInfo"))
        return welcome(params.get("protocolVersion"), NAME, self.version, INSTRUCTIONS)

    def _discovered(self) -> dict[str, Any]:
        return {"supportedVersions": [STATELESS], "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}

    def _introduce(self, info: Any) -> None:
        """Take note of who the client says it is."""
        if isinstance(info, dict):
            self.client = str(info.get("name") or self.client)
            self.client_version = str(info.get("version") or "")
        try:
            self._present(self.seats.haid(self.client))
        except TreadleError:
            pass  # the first call says it, where the client's person can see it

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise Fault(INVALID_PARAMS, "tools/call needs the name of a tool")
        arguments = {} if arguments is None else arguments
        haid = ""
        try:
            haid = self._acting(arguments)
            tool = self.tools.get(name)
            if tool is None:
                return _failed(haid, f"unknown tool: {name}", f"there are {', '.join(self.tools)}")
            if found := faults(tool.schema, arguments):
                return _failed(haid, f"{name}: the arguments are not right", "; ".join(found))
            for identity in {self.seats.haid(self.client), haid}:  # acting for another lifts nothing
                self.agents.require(identity)
            self._present(haid)
            wanted = {key: value for key, value in arguments.items() if key != "client_identity"}
            result = {"haid": haid, **tool.run(self, haid, **wanted)}
        except TreadleError as error:
            return _failed(haid, error.message.partition("\n")[0], str(error), error.details)
        return done(result)

    def _acting(self, arguments: Any) -> str:
        override = arguments.get("client_identity") if isinstance(arguments, dict) else None
        return self.seats.haid(override if isinstance(override, str) and override else self.client)

    def _present(self, haid: str) -> None:
        """Have it in the registry, and say now and then that it is alive."""
        now = self.planning.clock()
        if now - self._seen.get(haid, 0.0) > 60:
            own = self.seats.haid(self.client) == haid
            self.agents.register(haid, tool=self.client if own else "", tool_version=self.client_version if own else "")
            self._seen[haid] = now


def _failed(haid: str, error: str, detail: str, more: Any = None) -> dict[str, Any]:
    return failed({"error": error, "detail": detail, "haid": haid} | ({} if more is None else {"data": more}))
