"""The tools of the ledger server: the name of each, the schema of its arguments, and what it does.

They call the same functions as the commands; nothing is decided here.
"""

import os
from collections.abc import Callable

from treadle.coordination import briefs, decisions, guarding
from treadle.coordination.capsules import Capsules
from treadle.coordination.claims import Claims
from treadle.coordination.identity import checked
from treadle.coordination.messages import EVERYBODY, Inbox
from treadle.coordination.planning import read_text
from treadle.coordination.table import Blackboard, Symbols
from treadle.coordination.tool_facts import FACTS
from treadle.errors import ConfigError
from treadle.light import Any
from treadle.wire.common.schema import FLAG, NON_EMPTY, TEXT, Schema, list_of, record

_SOME = list_of(NON_EMPTY, 1)
_TOKENS: Schema = {"type": "integer", "minimum": 1}
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
    ) -> None:
        self.name = name
        self.reads = reads
        """Whether it only reads; then it also works where nothing can be written."""
        self.live = live
        """Whether it needs only live state, none of the records in the worktree."""
        self.description = description
        self.run = run
        self.schema = record(required or {}, {**(optional or {}), "client_identity": TEXT}, closed=True)

    def listed(self, revision: str) -> dict[str, Any]:
        """How it is listed for a client of this revision of the protocol."""
        found = {"name": self.name, "description": self.description, "inputSchema": self.schema}
        facts = FACTS[self.name]
        if revision >= "2025-03-26":
            found["annotations"] = facts.annotations(reads=self.reads)
        if revision >= "2025-06-18":
            found |= {"title": facts.title, "outputSchema": facts.output}
        return found


def _read_claims(claims: Claims, haid: str) -> dict[str, Any]:
    active = [claim.as_json() for claim in (*claims.active(), *claims.leases.active())]
    claims.planning.note("mcp", "read_claims", f"{haid} count={len(active)}")
    return {"active_claims": active, "count": len(active)}


def _make_claim(
    claims: Claims, haid: str, surfaces: list[str], task: str, ttl_minutes: float | None = None
) -> dict[str, Any]:
    ttl = None if ttl_minutes is None else int(ttl_minutes)
    _check_text(task, *surfaces)
    first = not claims.planning.claimed()
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
    for overlap in claims.leases.overlaps(claims.bindings.family(haid), claim.surfaces, None):
        warnings.append(f"{overlap.claim.haid} is writing {overlap.held}; its next write is refused")
    if first and (begun := guarding.begin(claims.planning)):
        answer["guard"] = begun[0]
    elif missed := guarding.warnings(claims.planning):
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
    stamp = decisions.append(claims.planning, title, body, _signed(haid))
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
        decisions.raise_conflict(
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


def _hydrate(claims: Claims, haid: str, ids: list[str], budget: float | None = None) -> dict[str, Any]:
    return {"ids": ids, "text": Capsules(claims.planning).hydrate(ids, None if budget is None else int(budget))}


def _brief(
    claims: Claims,
    haid: str,
    task: str,
    spec: str,
    symbols: list[str] | None = None,
    capsules: list[str] | None = None,
    invariants: str = "",
    strict: bool = False,
    budget: float | None = None,
) -> dict[str, Any]:
    wanted = (",".join(symbols or ()), ",".join(capsules or ()), invariants)
    most = None if budget is None else int(budget)
    return {"task": task, "brief": briefs.build(claims.planning, task, spec, *wanted, strict=strict, budget=most)}


SIX = (
    LedgerTool(
        "read_claims", "Who is changing what at the moment, and until when.", _read_claims, reads=True, live=True
    ),
    LedgerTool(
        "make_claim",
        "Claim paths, globs or file#symbol before you change them. Refused when another agent holds any of them."
        " Adds to what you hold. A sub-agent with a part of its own passes client_identity, a name of its own, here and"
        " in every later call; what it claims is then its own, and others of the same session are refused it.",
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
    ),
    LedgerTool(
        "read_capsules",
        "What was done before, in a few lines each: finished hand-offs and context capsules, a page at a time: `next`"
        " of an answer is the `after` of the following call.",
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
    LedgerTool("heartbeat", "Say that you are still at work; renews your claim.", _heartbeat, live=True),
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
    ),
    LedgerTool("set_fact", "Keep a fact for everybody, such as a port.", _set_fact, {"key": NON_EMPTY, "value": TEXT}),
    LedgerTool("get_fact", "Read a fact.", _get_fact, {"key": NON_EMPTY}, reads=True),
    LedgerTool(
        "resolve",
        "What a symbol stands for, or which symbol stands for a value.",
        _resolve,
        optional={"id": TEXT, "value": TEXT},
        reads=True,
    ),
    LedgerTool(
        "hydrate",
        "These capsules and all they build on, prerequisites first; with a budget of tokens, what fits and the ids of"
        " the rest.",
        _hydrate,
        {"ids": _SOME},
        {"budget": _TOKENS},
        reads=True,
    ),
    LedgerTool(
        "brief",
        "What to tell an agent that you spawn: its task, the symbols it names, what it builds on.",
        _brief,
        {"task": NON_EMPTY, "spec": NON_EMPTY},
        {
            "symbols": list_of(NON_EMPTY),
            "capsules": list_of(NON_EMPTY),
            "invariants": TEXT,
            "strict": FLAG,
            "budget": _TOKENS,
        },
        reads=True,
    ),
)
