"""The coordination ledger as a Model Context Protocol server for one connected client, over any transport."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable

from treadle.coordination import briefs, installed_hooks, repository
from treadle.coordination.bindings import IdentityBindings, check_own
from treadle.coordination.capsules import Capsules, append, raise_conflict
from treadle.coordination.claims import Claims
from treadle.coordination.identity import Agents, checked, current, known_client, slug
from treadle.coordination.ledger import Blackboard, Symbols
from treadle.coordination.messages import EVERYBODY, Inbox
from treadle.coordination.planning import Planning, read_text
from treadle.errors import ConfigError, StorageError, TreadleError
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.framing import MessageSplitter
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault, reply
from treadle.wire.common.schema import FLAG, NON_EMPTY, TEXT, Schema, faults, list_of, record
from treadle.wire.mcp import revisions

if TYPE_CHECKING:
    from treadle.errors import RemoteProtocolError


# The tools of the ledger server: the name of each, the schema of its arguments, and what it does.
#
# They call the same functions as the commands; nothing is decided here.

_SOME = list_of(NON_EMPTY, 1)
CAPSULES_PAGE = 50
"""How many capsules one answer holds if the caller does not say."""


class LedgerTool:
    def __init__(
        self,
        name: str,
        description: str,
        run: Callable[..., dict[str, Any]],
        required: dict[str, Schema] | None = None,
        optional: dict[str, Schema] | None = None,
        *,
        reads: bool = False,
        live: bool = False,
        destroys: bool = False,
        repeatable: bool = False,
    ) -> None:
        """`destroys`: it takes something away or writes over it. `repeatable`: a second call with the same arguments
        changes nothing more."""
        self.name = name
        self.reads = reads
        """Whether it only reads; then it also works where nothing can be written."""
        self.live = live
        """Whether it needs only live state, none of the records in the worktree."""
        hints = {"destructiveHint": destroys, "idempotentHint": repeatable} if not reads else {}
        self.annotations = {"readOnlyHint": reads, "openWorldHint": False, **hints}
        self.description = description
        self.run = run
        self.schema = record(required or {}, {**(optional or {}), "client_identity": TEXT}, closed=True)

    def listed(self, revision: str) -> dict[str, Any]:
        """How it is listed for a client of this revision of the protocol."""
        found = {"name": self.name, "description": self.description, "inputSchema": self.schema}
        return {**found, "annotations": self.annotations} if revision >= "2025-03-26" else found


def _read_claims(claims: Claims, haid: str) -> dict[str, Any]:
    active = [claim.as_json() for claim in claims.active()]
    claims.planning.note("mcp", "read_claims", f"{haid} count={len(active)}")
    return {"active_claims": active, "count": len(active)}


def _make_claim(
    claims: Claims, haid: str, surfaces: list[str], task: str, ttl_minutes: float | None = None
) -> dict[str, Any]:
    ttl = None if ttl_minutes is None else int(ttl_minutes)
    _check_text(task, *surfaces)
    first = not os.path.isdir(claims.directory)
    claim = claims.claim(haid, surfaces, f"{task} (via heimdall-ledger-mcp:{haid})", ttl)
    answer = {
        "result": f"claimed {len(set(surfaces))} surface(s) for {haid} until {claim.expires_at}",
        "client_haid": haid,
        "task_ref": claim.task,
        "surfaces": list(dict.fromkeys(surfaces)),
        "held": claim.texts,
        "task": task,
        "expires_at": claim.expires_at,
        "fence": claim.fence,
        "commit": "commit from this session's shell",
    }
    warnings = [f"{text} matches no file" for text in claims.without_files(surfaces)]
    warnings += [claims.unreported] if claims.unreported else []
    if first and (begun := installed_hooks.begin(claims.planning)):
        answer["guard"] = begun[0]
    elif missed := installed_hooks.warnings(claims.planning):
        warnings += missed
    return {**answer, "warnings": warnings} if warnings else answer


def _check_text(*texts: str) -> None:
    """Half a surrogate pair is valid JSON but not valid text: no file and no terminal can hold it."""
    for text in texts:
        text.encode()


def _release_claim(claims: Claims, acting: str, haid: str = "", surfaces: list[str] | None = None) -> dict[str, Any]:
    target = checked(haid) if haid else acting
    released = claims.release(acting, target, surfaces or ())
    result = f"released claim for {target}" if released else f"no active claim for {target}"
    given, left = (released.given, released.left) if released else ([], [])
    done = {"result": result, "released": released is not None, "released_haid": target}
    return {**done, "given_up": given, "held": left}


def _read_capsules(
    claims: Claims, haid: str, id: str = "", limit: float = CAPSULES_PAGE, after: str = ""
) -> dict[str, Any]:
    planning = claims.planning
    found: list[dict[str, str]] = []
    capsules, completed = Capsules(planning), planning.path("ledger", "completed")
    for name in sorted(os.listdir(completed)) if os.path.isdir(completed) else []:
        stem, extension = os.path.splitext(name)
        if extension == ".md":
            found.append({"id": stem, "source": "completed", "path": os.path.join(completed, name)})
    found += [{"id": name, "source": "protocol", "path": capsules.path(name)} for name in capsules.ids()]
    found = [row for row in found if row["id"] != "README" and id in ("", row["id"])]
    start = next((place + 1 for place, row in enumerate(found) if f"{row['source']}/{row['id']}" == after), 0)
    page = [{**row, "body": _body(capsules, row)} for row in found[start : start + int(limit)]]
    left = len(found) - start - len(page)
    planning.note("mcp", "read_capsules", f"{haid} count={len(page)}")
    answer: dict[str, Any] = {"capsules": page, "count": len(page)}
    if left:
        answer |= {"total": len(found), "next": f"{page[-1]['source']}/{page[-1]['id']}"}
    return answer


def _body(capsules: Capsules, row: dict[str, str]) -> str:
    return capsules.listed(row["id"]) if row["source"] == "protocol" else read_text(row["path"]) or ""


def _append_decision(claims: Claims, haid: str, title: str, body: str) -> dict[str, Any]:
    _check_text(title, body)
    stamp = append(claims.planning, title, body, _signed(haid))
    return {"appended": True, "timestamp": stamp, "title": title.strip()}


def _raise_conflict(
    claims: Claims,
    haid: str,
    id: str,
    title: str,
    surfaces: list[str],
    displaced_haid: str = "",
    overriding_intent: str = "",
    displaced_intent: str = "",
) -> dict[str, Any]:
    return dict(
        raise_conflict(
            claims.planning,
            id,
            title,
            surfaces,
            haid,
            displaced=displaced_haid,
            overriding_intent=overriding_intent,
            displaced_intent=displaced_intent,
            via=_signed(haid),
        )
    )


def _signed(haid: str) -> str:
    return f"via heimdall-ledger-mcp by `{haid}`"


# Beyond 1.0.0...


def _heartbeat(claims: Claims, haid: str) -> dict[str, Any]:
    claims.agents.heartbeat(haid)
    claim = claims.heartbeat(haid) if claims.holds(haid) else None
    claims.publish()
    return {"claim": claim.as_json() if claim else None}


def _post_message(claims: Claims, haid: str, message: dict[str, Any], to: str = EVERYBODY) -> dict[str, Any]:
    Inbox(claims.planning).post(haid, message, to)
    return {"posted": message["msg_id"], "to": to}


def _read_messages(
    claims: Claims, haid: str, ack: list[str] | None = None, acknowledged: bool = False
) -> dict[str, Any]:
    inbox = Inbox(claims.planning)
    done = inbox.acknowledge(haid, ack) if ack else []
    found = inbox.read(haid, acknowledged=acknowledged)
    return {"messages": found, "count": len(found), "acked": done}


def _set_fact(claims: Claims, haid: str, key: str, value: str) -> dict[str, Any]:
    Blackboard(claims.planning).set(key, value)
    return {"key": key, "value": value}


def _get_fact(claims: Claims, haid: str, key: str) -> dict[str, Any]:
    return {"key": key, "value": Blackboard(claims.planning).get(key)}


def _resolve(claims: Claims, haid: str, id: str = "", value: str = "") -> dict[str, Any]:
    symbols = Symbols(claims.planning)
    if bool(id) == bool(value):
        raise ConfigError("resolve takes either an id or a value")
    return {"id": id, "value": symbols.get(id)} if id else {"id": symbols.reverse(value), "value": value}


def _hydrate(claims: Claims, haid: str, ids: list[str]) -> dict[str, Any]:
    return {"ids": ids, "text": Capsules(claims.planning).hydrate(ids)}


def _brief(
    claims: Claims,
    haid: str,
    task: str,
    spec: str,
    symbols: list[str] | None = None,
    capsules: list[str] | None = None,
    invariants: str = "",
    strict: bool = False,
) -> dict[str, Any]:
    wanted = (",".join(symbols or ()), ",".join(capsules or ()), invariants)
    return {"task": task, "brief": briefs.build(claims.planning, task, spec, *wanted, strict=strict)}


SIX = (
    LedgerTool(
        "read_claims", "Who is changing what at the moment, and until when.", _read_claims, reads=True, live=True
    ),
    LedgerTool(
        "make_claim",
        "Claim paths, globs or file#symbol before you change them, beside what you hold. Refused when another agent"
        " holds any. A sub-agent that claims for itself passes client_identity, a name of its own, in every call.",
        _make_claim,
        {"surfaces": _SOME, "task": NON_EMPTY},
        {"ttl_minutes": {"type": "integer", "minimum": 1}},
        live=True,
    ),
    LedgerTool(
        "release_claim",
        "Give up the surfaces you name, or without any all that you hold, when you are done.",
        _release_claim,
        optional={"haid": TEXT, "surfaces": _SOME},
        live=True,
        destroys=True,
        repeatable=True,
    ),
    LedgerTool(
        "read_capsules",
        "What was done before, in a few lines each, a page at a time: `next` of an answer is the `after` of a call.",
        _read_capsules,
        optional={"id": TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 1000}, "after": TEXT},
        reads=True,
    ),
    LedgerTool(
        "append_decision",
        "Record a decision and its reason for everybody. Entries are never changed or removed.",
        _append_decision,
        {"title": NON_EMPTY, "body": NON_EMPTY},
    ),
    LedgerTool(
        "raise_conflict_pr",
        "Record that your work must displace another agent's: both intents, and where the displaced work is kept.",
        _raise_conflict,
        {"id": NON_EMPTY, "title": NON_EMPTY, "surfaces": _SOME},
        {"displaced_haid": TEXT, "overriding_intent": TEXT, "displaced_intent": TEXT},
    ),
)
ALL = (
    *SIX,
    LedgerTool("heartbeat", "Say that you still work; renews your claim.", _heartbeat, live=True, repeatable=True),
    LedgerTool(
        "post_message",
        "Send a typed message to one agent (its HAID), to a role, or to everybody.",
        _post_message,
        {"message": record({})},
        {"to": NON_EMPTY},
        live=True,
    ),
    LedgerTool(
        "read_messages",
        "Your messages that you have not acknowledged; `ack` acknowledges those you have dealt with.",
        _read_messages,
        optional={"ack": list_of(NON_EMPTY), "acknowledged": FLAG},
        live=True,
        repeatable=True,
    ),
    LedgerTool(
        "set_fact",
        "Keep a fact for everybody, such as a port.",
        _set_fact,
        {"key": NON_EMPTY, "value": TEXT},
        destroys=True,
        repeatable=True,
    ),
    LedgerTool("get_fact", "Read a fact.", _get_fact, {"key": NON_EMPTY}, reads=True),
    LedgerTool(
        "resolve",
        "What a symbol stands for, or which symbol stands for a value.",
        _resolve,
        optional={"id": TEXT, "value": TEXT},
        reads=True,
    ),
    LedgerTool(
        "hydrate", "These capsules and all they build on, prerequisites first.", _hydrate, {"ids": _SOME}, reads=True
    ),
    LedgerTool(
        "brief",
        "What to tell an agent that you spawn: its task, the symbols it names, what it builds on.",
        _brief,
        {"task": NON_EMPTY, "spec": NON_EMPTY},
        {"symbols": list_of(NON_EMPTY), "capsules": list_of(NON_EMPTY), "invariants": TEXT, "strict": FLAG},
        reads=True,
    ),
)


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

    def __init__(self, planning: Planning, *, extended: bool = False, identity: str = "", live: bool = False) -> None:
        """`identity`: who the client is, whatever it says.
        `live`: it is offered only the tools that leave the records in the worktree alone.
        """
        self.planning = planning
        offered = [tool for tool in (ALL if extended else SIX) if tool.live or not live]
        self.tools = {tool.name: tool for tool in offered}
        self.instructions = INSTRUCTIONS + ("" if live else RECORDING)
        self.version = EXTENDED_VERSION if extended else VERSION
        self.client = "mcp-client"
        self.client_version = ""
        self.bindings = IdentityBindings(planning, current(planning.project))
        declared = os.environ.get("HEIMDALL_HAID", "")
        self._declared = identity or (checked(declared) if "/" in declared else "")
        """The identity that the host declares. With a role, it acts under that, also in its shells and git hooks."""
        self._given = bool(identity)
        self._session = ""
        """The session that the current call says it comes from."""
        self.agents = Agents(planning)
        found = repository.find(planning.project)
        self.claims = Claims(planning, found.top if found else planning.project)
        self._seen: dict[str, float] = {}
        self._revision = revisions.REVISIONS[0]

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
        if method in ("server/discover", "tools/list"):
            result = {**result, "ttlMs": 0, "cacheScope": "private"}
        info = {"name": NAME, "version": self.version}
        return {**result, "resultType": "complete", "_meta": {f"{revisions.META}serverInfo": info}}

    def _do(self, method: str, params: dict[str, Any]) -> Any:
        return revisions.dispatch(method, params, initialize=self._initialize, tools=self._listed, call=self._call)

    def _listed(self) -> list[dict[str, Any]]:
        return [tool.listed(self._revision) for tool in self.tools.values()]

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._revision = revisions.agreed(params.get("protocolVersion"))
        self._introduce(params.get("clientInfo"))
        asked = params.get("protocolVersion")
        return revisions.welcome(asked, NAME, self.version, self.instructions)

    def _discovered(self) -> dict[str, Any]:
        return {
            "supportedVersions": [revisions.STATELESS],
            "capabilities": revisions.CAPABILITIES,
            "instructions": self.instructions,
        }

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
            if self._declared and not self._given:
                check_own(self.planning, self._declared)
            self.claims.session = self._own()
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


# The ledger server on standard input and output: messages in either framing come in, replies go out one per line.

RENEW_SECONDS = 60.0


def serve(server: Server, source: int = 0, sink: int = 1) -> None:
    """Answer until the input ends; a last message without its newline counts too."""
    splitter = MessageSplitter()
    try:
        while data := _next(server, source):
            _answer(server, splitter.feed(data), sink)
        if rest := splitter.end().strip():
            _answer(server, [rest], sink)
    finally:
        server.close()


def _next(server: Server, source: int) -> bytes:
    """The next input. Meanwhile the client's claims are renewed, because it is connected."""
    while not select.select([source], [], [], RENEW_SECONDS)[0]:
        server.renew()
    return os.read(source, 1 << 16)


def _answer(server: Server, messages: Iterable[bytes | RemoteProtocolError], sink: int) -> None:
    for message in messages:
        answer = reply(message, server.handle)
        if answer is not None:
            _write(sink, answer)


def _write(sink: int, text: str) -> None:
    view = memoryview(text.encode() + b"\n")
    while view:
        view = view[os.write(sink, view) :]
