"""The coordination ledger as a Model Context Protocol server for one connected client, over any transport."""

import os

from treadle.coordination import repository, tools
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.claims import Claims
from treadle.coordination.identity import Agents, checked, current, slug
from treadle.coordination.origin import known_client
from treadle.coordination.planning import Planning
from treadle.coordination.resources import Resources
from treadle.errors import StorageError, TreadleError
from treadle.light import Any
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from treadle.wire.common.schema import faults
from treadle.wire.mcp import revisions

NAME = "heimdall-ledger-mcp"
VERSION = "1.0.0"
EXTENDED_VERSION = "1.1.0"
INSTRUCTIONS = (
    "Several agents work in this repository. Before you change files, make_claim on them; if it is refused, another"
    " agent is at work there: read_claims says who and until when. Claims add up, and are renewed while you are"
    " connected; release_claim gives up what you are done with. A sub-agent that works on its own part passes the same"
    " client_identity, a name of its own, in every call."
)
RECORDING = " append_decision for what others must know."


class Server:
    """One client's conversation; `jsonrpc.reply` calls `handle`."""

    def __init__(
        self,
        planning: Planning,
        *,
        extended: bool = False,
        remote: bool = False,
        identity: str = "",
        live: bool = False,
    ) -> None:
        """`remote`: the client is not the program that started this process. `identity`: who it is, whatever it says.
        `live`: it is offered only the tools that leave the records in the worktree alone.
        """
        self.planning = planning
        offered = [tool for tool in (tools.ALL if extended else tools.SIX) if tool.live or not live]
        self.tools = {tool.name: tool for tool in offered}
        self.instructions = INSTRUCTIONS + ("" if live else RECORDING)
        self.version = EXTENDED_VERSION if extended else VERSION
        self.client = "mcp-client"
        self.client_version = ""
        self.bindings = IdentityBindings(planning, current(planning.project), remote=remote)
        declared = "" if remote else os.environ.get("HEIMDALL_HAID", "")
        self._declared = identity or (checked(declared) if "/" in declared else "")
        """The identity that the host declares. With a role, it acts under that, also in its shells and git hooks."""
        self._session = ""
        """The session that the current call says it comes from."""
        self.agents = Agents(planning)
        found = repository.find(planning.project)
        self.claims = Claims(planning, found.top if found else planning.project)
        self._seen: dict[str, float] = {}
        self._remote = remote
        self._revision = revisions.REVISIONS[0]
        self._resources = Resources(self.claims, live=live)
        self._subscribed: dict[str, tuple[int, ...]] = {}
        """Resource -> its state when the client was last told of it."""
        self._quiet = False
        """The client does not want to be told what is free now."""
        self._notified: set[str] = set()

    def close(self) -> None:
        self.bindings.leave()

    def handle(self, method: str, params: dict[str, Any]) -> Any:
        meta = revisions.stateless(params)
        if meta is None:
            return self._do(method, params)
        if method == "initialize":  # in this revision every request introduces its sender
            raise Fault(METHOD_NOT_FOUND, f"unknown method: {method}")
        self._revision = revisions.STATELESS
        self._introduce(meta.get(f"{revisions.META}clientInfo"))
        result = self._discovered() if method == "server/discover" else self._do(method, params)
        if method in ("server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read"):
            result = {**result, "ttlMs": 0, "cacheScope": "private"}
        info = {"name": NAME, "version": self.version}
        return {**result, "resultType": "complete", "_meta": {f"{revisions.META}serverInfo": info}}

    def _do(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._revision != revisions.REVISIONS[0] and method.startswith(("resources/", "logging/")):
            return self._do_more(method, params)
        answer = revisions.dispatch(method, params, initialize=self._initialize, tools=self._listed, call=self._call)
        return dict(answer)

    def _listed(self) -> list[dict[str, Any]]:
        return [tool.listed(self._revision) for tool in self.tools.values()]

    def _do_more(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """What the revision of the seed does not have here."""
        uri = params.get("uri")
        if method == "resources/list":
            return self._resources.listed(params.get("cursor"))
        if method == "resources/templates/list":
            return self._resources.templates()
        if method == "resources/read":
            return self._resources.read(uri)
        if self._notifies() and method == "resources/subscribe":
            self._resources.read(uri)
            self._subscribed[str(uri)] = self._resources.state(str(uri))
        elif self._notifies() and method == "resources/unsubscribe":
            self._subscribed.pop(str(uri), None)
        elif self._notifies() and method == "logging/setLevel":
            self._quiet = params.get("level") not in ("debug", "info", "notice")
        else:
            raise Fault(METHOD_NOT_FOUND, f"unknown method: {method}")
        return {}

    def _notifies(self) -> bool:
        """Whether the client can be sent something unasked: there is no stream for that over HTTP."""
        return not self._remote and self._revision in revisions.REVISIONS[1:]

    def _offered(self) -> dict[str, Any]:
        if self._revision == revisions.REVISIONS[0]:
            return {}
        offered: dict[str, Any] = {"resources": {"subscribe": self._notifies(), "listChanged": False}}
        return {**offered, "logging": {}} if self._notifies() else offered

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._revision = revisions.agreed(params.get("protocolVersion"))
        self._introduce(params.get("clientInfo"))
        asked = params.get("protocolVersion")
        return revisions.welcome(asked, NAME, self.version, self.instructions, self._offered())

    def _discovered(self) -> dict[str, Any]:
        offered = {**revisions.CAPABILITIES, **self._offered()}
        return {"supportedVersions": [revisions.STATELESS], "capabilities": offered, "instructions": self.instructions}

    # What is sent unasked...

    def watches(self) -> bool:
        """Whether there may be news for the client."""
        waiting = any(self.claims.waits.is_waiting(haid) for haid in self.bindings.taken())
        return self._notifies() and bool(self._subscribed or waiting)

    def news(self) -> list[dict[str, Any]]:
        """Notifications for the client: its resources that have changed, and what it waited for and is free now."""
        found = []
        for uri, known in self._subscribed.items() if self._notifies() else ():
            state = self._resources.state(uri)
            if state != known:
                self._subscribed[uri] = state
                found.append(_notification("resources/updated", {"uri": uri}))
        for haid in self.bindings.taken() if self._notifies() and not self._quiet else ():
            free = self.claims.free_for(haid)
            if free and haid not in self._notified:
                data = {"haid": haid, "free": free, "say": "Claim it before you change it."}
                found.append(_notification("message", {"level": "notice", "logger": NAME, "data": data}))
            (self._notified.add if free else self._notified.discard)(haid)
        return found

    def _introduce(self, info: Any) -> None:
        """Remember who the client says it is."""
        if isinstance(info, dict):
            self.client = known_client(str(info.get("name") or self.client))
            self.client_version = str(info.get("version") or "")
        try:
            self._refresh_entry(self._own())
        except TreadleError:
            pass  # the first call reports it, where the client's person can see it

    def renew(self) -> None:
        """The client is connected, so its claims must not expire."""
        for haid in {*self.bindings.taken(), self._declared} - {""}:
            self.claims.keep(haid)

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise Fault(INVALID_PARAMS, "tools/call needs the name of a tool")
        arguments = {} if arguments is None else arguments
        self._session = _session_of(params)
        haid = ""
        try:
            haid = self._acting(arguments)
            tool = self.tools.get(name)
            if tool is None:
                return _failed(haid, f"unknown tool: {name}", f"there are {', '.join(self.tools)}")
            if found := faults(tool.schema, arguments):
                return _failed(haid, f"{name}: the arguments are not right", "; ".join(found))
            for identity in {self._own(), haid}:  # acting for another does not lift a revocation
                self.agents.require(identity)
            self._refresh_entry(haid, tool.reads)
            if not tool.reads:
                self.claims.keep(haid)
            wanted = {key: value for key, value in arguments.items() if key != "client_identity"}
            result = {"haid": haid, **tool.run(self.claims, haid, **wanted)}
        except TreadleError as error:
            return _failed(haid, error.message.partition("\n")[0], _detail(error), error.details)
        except (OverflowError, UnicodeError) as error:
            return _failed(haid, f"{name}: the arguments are not right", str(error))
        if waiting := self.claims.waits.on(haid):
            result["waiting"] = waiting
        return revisions.done(result)

    def _own(self) -> str:
        """Who the connected client is."""
        return self._declared or self.bindings.haid(self.client, self._session)

    def _acting(self, arguments: Any) -> str:
        """The acting identity: the client's, or that of the sub-agent that the call names."""
        named = arguments.get("client_identity") if isinstance(arguments, dict) else None
        if not isinstance(named, str) or not named or slug(named) == slug(self.client):
            return self._own()
        return self.bindings.haid(named, of=self._own())

    def _refresh_entry(self, haid: str, only_reads: bool = True) -> None:
        """Register it, and refresh its entry now and then. A caller that only reads need not be registered."""
        now = self.planning.clock()
        if now - self._seen.get(haid, 0.0) > 60:
            own = self._own() == haid
            more = (self.client, self.client_version) if own else ("", "")
            try:
                self.agents.register(haid, tool=more[0], tool_version=more[1])
            except StorageError:
                if not only_reads:
                    raise
            self._seen[haid] = now


def _notification(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}


def _session_of(params: dict[str, Any]) -> str:
    """The session that a call comes from. Codex starts servers with a bare environment and names its session here."""
    meta = params.get("_meta")
    thread = meta.get("threadId") if isinstance(meta, dict) else None
    return f"codex:{thread}" if isinstance(thread, str) and 0 < len(thread) <= 200 else ""


def _detail(error: TreadleError) -> str:
    """The full error message. A hint about a command is left out, because a tool's caller cannot type one."""
    hint = error.hint or ""
    return error.message if "heimdall-" in hint or "--" in hint or not hint else f"{error.message}\n{hint}"


def _failed(haid: str, error: str, detail: str, more: Any = None) -> dict[str, Any]:
    return revisions.failed({"error": error, "detail": detail, "haid": haid} | ({} if more is None else {"data": more}))
