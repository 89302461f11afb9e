"""What an MCP client can know of a ledger tool before it calls it: its title, what it may change, what it returns."""

from treadle.light import Any
from treadle.wire.common.schema import FLAG, TEXT, Schema, list_of, record

_NUMBER: Schema = {"type": "integer"}
_TEXTS = list_of(TEXT)
_CLAIM = record({"haid": TEXT, "claimed_surfaces": _TEXTS, "expires_at": TEXT, "mode": TEXT})
_CAPSULE = record({"id": TEXT, "source": TEXT, "path": TEXT, "body": TEXT})
_MESSAGE = record({"ts": TEXT, "to": TEXT, "by": TEXT, "message": record({})})


class ToolFacts:
    def __init__(
        self,
        title: str,
        result: dict[str, Schema],
        more: dict[str, Schema] | None = None,
        *,
        destroys: bool = False,
        repeatable: bool = False,
    ) -> None:
        """`result`: the fields of each result, beside `haid`; `more`: those that it may have. `destroys`: it takes
        something away or writes over it. `repeatable`: a second call with the same arguments changes nothing more."""
        self.title = title
        self.output = record({"haid": TEXT, **result}, {"waiting": list_of(record({})), **(more or {})})
        self._destroys = destroys
        self._repeatable = repeatable

    def annotations(self, *, reads: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"title": self.title, "readOnlyHint": reads, "openWorldHint": False}
        changes = {"destructiveHint": self._destroys, "idempotentHint": self._repeatable}
        return found if reads else {**found, **changes}


FACTS = {
    "read_claims": ToolFacts("Read claims", {"active_claims": list_of(_CLAIM), "count": _NUMBER}),
    "make_claim": ToolFacts(
        "Claim files",
        {"result": TEXT, "client_haid": TEXT, "task_ref": TEXT, "surfaces": _TEXTS, "held": _TEXTS, "task": TEXT}
        | {"expires_at": TEXT, "fence": _NUMBER, "commit": TEXT},
        {"warnings": _TEXTS, "guard": TEXT},
    ),
    "release_claim": ToolFacts(
        "Release claims",
        {"result": TEXT, "released": FLAG, "released_haid": TEXT, "given_up": _TEXTS, "held": _TEXTS},
        destroys=True,
        repeatable=True,
    ),
    "read_capsules": ToolFacts(
        "Read capsules", {"capsules": list_of(_CAPSULE), "count": _NUMBER}, {"total": _NUMBER, "next": TEXT}
    ),
    "append_decision": ToolFacts("Record a decision", {"appended": FLAG, "timestamp": TEXT, "title": TEXT}),
    "raise_conflict_pr": ToolFacts(
        "Record a conflict",
        {"conflict_file": TEXT, "relative_path": TEXT, "preserved_branch": TEXT, "pr_path": TEXT},
    ),
    "heartbeat": ToolFacts("Renew claims", {"claim": {"type": ["object", "null"]}}, repeatable=True),
    "post_message": ToolFacts("Send a message", {"posted": TEXT, "to": TEXT}),
    "read_messages": ToolFacts(
        "Read messages", {"messages": list_of(_MESSAGE), "count": _NUMBER, "acked": _TEXTS}, repeatable=True
    ),
    "set_fact": ToolFacts("Set a fact", {"key": TEXT, "value": TEXT}, destroys=True, repeatable=True),
    "get_fact": ToolFacts("Read a fact", {"key": TEXT, "value": TEXT}),
    "resolve": ToolFacts("Resolve a symbol", {"id": TEXT, "value": TEXT}),
    "hydrate": ToolFacts("Hydrate capsules", {"ids": _TEXTS, "text": TEXT}),
    "brief": ToolFacts("Write a brief", {"task": TEXT, "brief": TEXT}),
}
