"""Makes the receipt of a run from what was seen of it. What the sidecar claims and what we observed are kept apart.

The contract's fields hold what was observed wherever that is possible: the trace, the changes to the workspace, the
result of the check. For the rest (usage, artifacts) we have only the sidecar's word. What the contract has no field for
is in `usage_raw.treadle`, which any verifier accepts because `usage_raw` is free-form.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, Required, TypeAlias, TypedDict, get_args

import msgspec
from msgspec import UNSET

from treadle import __version__
from treadle.errors import LocalError, PeerExited, TreadleError
from treadle.receipts.artifacts import Collected
from treadle.redact import Redactor
from treadle.sessions.handover import own_words
from treadle.verification.ending import CheckedEnding
from treadle.verification.evidence import CheckEvidence
from treadle.wire.common.jsontext import repaired
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import Final, SidecarHello, WorkOrder
from treadle.wire.sidecar.events import contract_code
from treadle.wire.sidecar.repair import NOWHEN, Deviation
from treadle.workspace.changes import PathChange, quoted
from treadle.workspace.directories import Oddity, PermissionChange
from treadle.workspace.merge import Merged
from treadle.workspace.workspace import Difference

# Compares what a sidecar claims in its final receipt and its events with what was seen of its run, in words.

MOST = 200
"""Names and differences of one kind that a receipt lists."""
_PATCHED = re.compile(r"^(?:--- a/|\+\+\+ b/|rename (?:from|to) )(.*?)\t?$", re.MULTILINE)


def relative(paths: Iterable[str], root: str) -> list[str]:
    """The paths as events report them, relative to the workspace."""
    found: dict[str, None] = {}
    for path in paths:
        path = os.path.normpath(path)
        found[os.path.relpath(path, root) if os.path.isabs(path) else path] = None
    return list(found)


def claims(claim: receipts.Receipt, files: Sequence[str], commands: Sequence[str]) -> dict[str, Any]:
    """What the sidecar says, for the record. `files` and `commands` are those that its events report."""
    try:
        matches: bool | None = (
            claim.receipt_sha256 == receipts.receipt_hash(receipts.normal(claim)) if claim.receipt_sha256 else None
        )
    except ValueError:
        matches = False
    return {
        "outcome": claim.outcome,
        "run_id": claim.meta.run_id,
        "work_order_id": claim.meta.work_order_id,
        "backend": claim.backend.id,
        "harness_ok": claim.verification.harness_ok,
        "trace_events": len(claim.trace),
        "files": [*files[:MOST]],
        "commands": [*commands[:MOST]],
        "sha256": claim.receipt_sha256,
        "sha256_matches": matches,
    }


def about_identity(claim: receipts.Receipt, run_id: str, order_id: str, backend: str | None) -> Iterator[str]:
    """Whether its receipt is about this run, this order and the program that said hello."""
    for claimed, is_, what in ((claim.meta.run_id, run_id, "run"), (claim.meta.work_order_id, order_id, "order")):
        if _uuid(claimed) != _uuid(is_):
            yield f"its receipt is about the {what} {quoted(claimed)}, and this is {is_}"
    if backend and claim.backend.id != backend:
        yield f"its receipt is by {quoted(claim.backend.id)}, and {quoted(backend)} said hello"


def _uuid(text: str) -> str:
    try:
        return receipts.normal_uuid(text)
    except ValueError:
        return text


def about_trace(
    claim: receipts.Receipt, streamed: Sequence[receipts.AnyAgentEvent] | None, number: int
) -> Iterator[str]:
    """Events of its receipt that were never streamed, and those streamed that its receipt, if it has a trace, lacks.

    `streamed` is None when there were too many to keep them all; then only their `number` is compared. Times and `ext`
    are not compared, nor pieces of text, which many join; and not what begins and ends a run.
    """
    if not claim.trace:
        return
    if streamed is None:
        if len(claim.trace) > number:
            yield f"its receipt has {len(claim.trace)} events, and it sent {number}"
        return
    claimed, sent = (Counter(map(_content, filter(_counts, events))) for events in (claim.trace, streamed))
    for found, text in (
        (claimed - sent, "its receipt has events that it never sent"),
        (sent - claimed, "its receipt leaves out events that it sent"),
    ):
        kinds = Counter[str]()
        for content, times in found.items():
            kinds[msgspec.json.decode(content)["type"]] += times
        if kinds:
            yield f"{text}: {', '.join(f'{times} {kind}' for kind, times in sorted(kinds.items()))}"


def _counts(event: receipts.AnyAgentEvent) -> bool:
    return not isinstance(event, receipts.AssistantDelta | receipts.RunStarted | receipts.RunCompleted)


def _content(event: receipts.AnyAgentEvent) -> bytes:
    tree = msgspec.to_builtins(event)
    return msgspec.json.encode({name: tree[name] for name in sorted(tree.keys() - {"ts", "ext"})}, order="sorted")


def about_files(reported: set[str], found: Difference, *, complete: bool) -> Iterator[str]:
    """`complete`: whether `reported` has all that it reported; if not, no one knows what it left out."""
    real = {path for change in found.changes for path in (change.path, change.old_path) if path}
    yield from (f"said that it changed {quoted(path)}, which did not change" for path in sorted(reported - real))
    if complete:
        yield from (f"changed {quoted(path)} and did not say so" for path in sorted(real - reported))
    elif real - reported:
        yield f"it reported so many files that {len(real - reported)} changed ones could not be compared with its word"


def about_patch(claim: receipts.Receipt, found: Difference) -> Iterator[str]:
    """Its own patch, if it has one: the same files, and the same lines added and removed."""
    patch = claim.verification.git_diff
    if patch is None:
        return
    ours = found.patch.decode("utf-8", "replace")
    named, real = (set(_PATCHED.findall(text)) for text in (patch, ours))
    for path in sorted(named - real):
        yield f"its patch changes {quoted(path)}, which did not change"
    if named <= real and named and _lines(patch) - _lines(ours):
        yield "its patch has lines that are not in the workspace"


def _lines(patch: str) -> Counter[str]:
    return Counter(line for line in patch.splitlines() if line[:1] in "+-" and line[:4] not in ("+++ ", "--- "))


FORMAT = 2
"""Of our part of a receipt: `observed` is what we did or saw, `claimed` the word of the agent, sidecar or service. In
format 1, which earlier releases wrote, most of `observed` stood beside it, and `artifacts` mixed both."""
_PARTS = (
    *("order", "end", "policy", "unmet_requirements", "confinement", "workspace", "earlier_attempts"),
    *("resumed_after_crash", "notes", "notes_left_out"),
)


def with_observed(receipt: receipts.Receipt, **parts: Any) -> receipts.Receipt:
    """A receipt of ours, not yet in the chain, with other facts about some parts of what we did."""
    more = receipt.usage_raw["treadle"]
    changed = {"observed": {**more["observed"], **parts}} if more["format"] >= 2 else parts
    return msgspec.structs.replace(receipt, usage_raw={**receipt.usage_raw, "treadle": {**more, **changed}})


TRACE_EVENTS = 10_000
TRACE_TAIL = 500
TRACE_BYTES = 32 * 1024 * 1024
BIG_EVENT = 64 * 1024
NOTES = 200
REASON_MAX = 2000
MOST_REPORTED = 100_000
DIFF_CAP = 4 * 1024 * 1024


class Trace:
    """The events of a run: only the first and the last if there are too many, and notes in place of huge ones."""

    def __init__(self, keep: int = TRACE_EVENTS, keep_bytes: int = TRACE_BYTES) -> None:
        self._keep = keep
        self._keep_bytes = keep_bytes
        self._head: list[receipts.AnyAgentEvent] = []
        self._tail: deque[receipts.AnyAgentEvent] = deque(maxlen=TRACE_TAIL)
        self.seen = 0
        self.files: dict[str, None] = {}
        """The files that events report as changed, also those events that are left out."""
        self.commands: dict[str, None] = {}
        self.last_error: receipts.ErrorMet | None = None

    def extend(self, events: Sequence[receipts.AnyAgentEvent], size: int = 0) -> None:
        """`size` is their total length as JSON. A huge event is replaced by a note about it."""
        self.seen += len(events)
        for event in events:
            if type(event) is receipts.FileWritten and len(self.files) < MOST_REPORTED:
                self.files[event.path] = None
            elif type(event) is receipts.CommandExecuted and len(self.commands) < MOST_REPORTED:
                self.commands[event.command] = None
            elif type(event) is receipts.ErrorMet:
                self.last_error = event
        if size > BIG_EVENT:
            events = [shortened(event) for event in events]
        room = self._keep - len(self._head) if self._keep_bytes > 0 else 0
        if room > 0:
            self._keep_bytes -= size
            self._head += events[:room]
            events = events[room:]
        self._tail.extend(events[-TRACE_TAIL:])

    @property
    def left_out(self) -> int:
        return self.seen - len(self._head) - len(self._tail)

    def events(self, now: str) -> list[receipts.AnyAgentEvent]:
        if not self.left_out:
            return [*self._head, *self._tail]
        gap = receipts.WarningGiven(
            ts=now, message=f"{self.left_out} events are left out here", ext={"left_out": self.left_out}
        )
        return [*self._head, gap, *self._tail]


def shortened(event: receipts.AnyAgentEvent) -> receipts.AnyAgentEvent:
    text = msgspec.json.encode(event)
    if len(text) <= BIG_EVENT:
        return event
    start = text[:200].decode("utf-8", "replace")
    return receipts.WarningGiven(
        ts=event.ts, message=f"an event of {len(text)} bytes is left out", ext={"begins": start}
    )


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The command with which a person checks whether the work is good."""

    command: str
    exit_code: int | None
    output_tail: str = ""
    setup: str = ""
    """What ran before it."""
    evidence: CheckEvidence | msgspec.UnsetType = UNSET
    """What else was checked, where the command ran on the result of some work."""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and (self.evidence is UNSET or self.evidence.good)

    @property
    def failure(self) -> str:
        """What is wrong, for a person: the command failed, or it passed and that proves nothing. Empty if it is ok."""
        if self.ok:
            return ""
        if self.evidence is UNSET or (self.exit_code != 0 and self.evidence.word == "failed"):
            return f"{self.command} failed"
        return f"{self.command}: {self.evidence.why}"

    def proving(self, evidence: CheckEvidence) -> Check:
        """The same with its evidence; where the command passed and proves nothing, its output says so."""
        doubt = "" if evidence.good or self.exit_code != 0 else f"treadle: {evidence.why}\n"
        return msgspec.structs.replace(self, evidence=evidence, output_tail=doubt + self.output_tail)


Enforced: TypeAlias = Literal["kernel", "guard", "observed"]
"""How a policy was enforced: by the kernel, by asking before each act, or by judging what was seen. Best first."""
Covers: TypeAlias = Literal["sidecar", "agent", "commands"]
"""What is in the sandbox: the sidecar or agent with all that it starts, or only the commands of an agent of ours."""


class Walls(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox of a run, as its receipt states it."""

    method: str
    covers: Covers
    network: Literal["on", "off", "off for commands"]
    """off for commands: hooks, MCP servers and the setup of a check had it, which a person set up."""
    hosts: tuple[str, ...] = ()
    """With the network off, the hosts that could be reached through our proxy."""
    hidden: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()
    """What this method does not keep."""


# The form of our part, as far as anything reads it. Anyone can write a receipt, so nothing is read that has another.


class _Reason(TypedDict, total=False):
    message: Required[str]


class _End(TypedDict, total=False):
    message: str | None


class _Ordered(TypedDict, total=False):
    task: str | None
    agent: str | None
    model: str | None


class _Policy(TypedDict, total=False):
    rules: dict[str, list[str]] | None
    enforced: str | None
    lists: dict[str, str] | None


class _StatedPlace(TypedDict, total=False):
    mode: str
    source: str | None
    repository: str | None
    branch: str | None
    directory: str | None
    base_tree: str | None
    base_commit: str | None
    start_tree: str | None
    result_tree: str | None
    result_commit: str | None
    confined_by: str | None
    sealed: bool | None
    applied: Merged | None


class _Attempt(TypedDict, total=False):
    agent: Required[str]
    outcome: Required[str]
    message: str | None


class _Note(TypedDict):
    where: str
    problem: str


class _Checked(TypedDict, total=False):
    command: Required[str]
    exit_code: Required[int | None]
    ok: bool
    setup: str
    evidence: CheckEvidence | None


class _Claim(TypedDict, total=False):
    outcome: str | None
    models: list[str] | None
    artifacts: list[Collected] | None
    error: _Reason | None


class _Parts(TypedDict, total=False):
    order: _Ordered | None
    end: _End | None
    policy: _Policy | None
    confinement: Walls | None
    workspace: _StatedPlace | None
    earlier_attempts: list[_Attempt] | None
    notes: list[_Note] | None


class _Observations(_Parts, total=False):
    models: list[str] | None
    files: list[PathChange] | None
    hidden: list[str] | None
    hidden_left_out: int | None
    oddities: list[Oddity] | None
    oddities_left_out: int | None
    permissions: list[PermissionChange] | None
    permissions_left_out: int | None
    patch: Collected | None
    patch_lines_redacted: int | None
    check: _Checked | None
    ending: CheckedEnding | None


class _Registered(TypedDict, total=False):
    key_in_reach: bool | None


class _Signature(TypedDict, total=False):
    run: _Registered | None


class _OurPart(_Parts, total=False):
    observed: _Observations | None
    claimed: _Claim | None
    artifacts: list[Collected] | None
    differences: list[str] | None
    signature: _Signature | None


def misshapen(receipt: receipts.Receipt) -> str | None:
    """What is wrong with the form of our part of a receipt; None if nothing is, or if it has no such part."""
    raw = receipt.usage_raw
    if not isinstance(raw, dict) or raw.get("treadle") is None:
        return None
    try:
        msgspec.convert(raw["treadle"], _OurPart)
    except msgspec.ValidationError as error:
        return f"usage_raw.treadle is in no form that we write: {error}"
    return None


def ours(receipt: receipts.Receipt) -> dict[str, Any]:
    """Our part of a receipt with its parts side by side, whatever its format; empty when it is not one of ours."""
    raw = receipt.usage_raw if isinstance(receipt.usage_raw, dict) else {}
    more = raw.get("treadle")
    if not isinstance(more, dict) or misshapen(receipt):
        return {}
    seen, number = more.get("observed"), more.get("format")
    if not isinstance(number, int) or number < 2 or not isinstance(seen, dict):
        return more
    claim, patch = more.get("claimed") or {}, seen.get("patch")
    parts = {name: seen[name] for name in _PARTS if name in seen}
    parts["end"] = {**(parts.get("end") or {}), "said": claim.get("error"), "stderr_tail": claim.get("stderr_tail")}
    parts["claimed"] = claim if claim.get("outcome") is not None else None
    parts["unknown_capabilities"] = claim.get("unknown_capabilities")
    parts["artifacts"] = [*(claim.get("artifacts") or []), *([patch] if patch else [])]
    return {**more, **parts}


class Observed:
    """Everything seen of one run, filled in as it happens."""

    def __init__(self, run_id: str, order: WorkOrder, backend: str, started: float) -> None:
        self.run_id = run_id
        self.order = order
        self.backend = backend
        self.started = started
        self.finished = started
        self.hello: SidecarHello | None = None
        self.trace = Trace()
        self.notes: list[Deviation] = []
        self.final: Final | None = None
        self.error: TreadleError | None = None
        self.handshaking = True
        self.stopped: TreadleError | None = None
        """Why we cancelled it, if we did."""
        self.exit_code: int | None = None
        self.stderr_tail = ""
        self.commands_seen: Sequence[str] | None = None
        self.difference: Difference | None = None
        self.check: Check | None = None
        self.ending: CheckedEnding | None = None
        """What the project's own check says, where the person gave none."""
        self.workspace: dict[str, Any] = {}
        self.merged: Merged | None = None
        self.commit: str | None = None
        """The commit of the result, if it became one."""
        self.walls: Walls | None = None
        """The sandbox that it ran in; None when there was none."""
        self.patch_path: str | None = None
        self.artifacts: list[Collected] = []
        self.attempts: list[dict[str, Any]] = []
        """The outcomes of earlier attempts at the same order."""
        self.command: Sequence[str] = ()
        """The sidecar's command line; empty for an agent of ours."""
        self.order_path: str | None = None
        """The file with the whole order."""
        self.unmet: list[str] = []
        self.enforcement: dict[str, Enforced] | None = None
        """For each list of the policy that is not empty, how it was enforced; None when the run did not begin."""
        self.own_wire = False
        """Whether the models were asked by a client of ours, so that we know which."""
        self.resumed = False

    def without_its_words(self, error: Exception) -> Observed:
        """A copy without anything the sidecar said, for when something it said makes a receipt impossible."""
        made = Observed(self.run_id, self.order, self.backend, self.started)
        made.error = LocalError(f"the sidecar's output makes no valid receipt: {type(error).__name__}: {error}")
        made.handshaking, made.finished, made.exit_code = False, self.finished, self.exit_code
        made.workspace, made.patch_path, made.difference = self.workspace, self.patch_path, self.difference
        made.command, made.order_path = self.command, self.order_path
        return made

    @property
    def enforced(self) -> Enforced | None:
        """How the policy as a whole was enforced: no better than the weakest of its lists."""
        if self.enforcement is None:
            return None
        return max(self.enforcement.values(), key=get_args(Enforced).index, default="observed")

    def receipt(self, redactor: Redactor) -> receipts.Receipt:
        """The receipt in normal form, without secrets. It gets its hash when it is added to the chain."""
        started, finished = receipts.timestamp(self.started), receipts.timestamp(self.finished)
        claim = self.final.receipt if self.final else None
        trace = [_with_valid_time(event, finished) for event in self.trace.events(finished)]
        if self.failure is not None:
            trace.append(self._error_event(self.failure, finished))
        made = receipts.Receipt(
            meta=receipts.ReceiptMeta(
                run_id=self.run_id,
                work_order_id=self.order.id,
                contract_version=receipts.CONTRACT,
                started_at=started,
                finished_at=finished,
                duration_ms=max(0, round(self.finished * 1000) - round(self.started * 1000)),
            ),
            backend=self.hello.backend
            if self.hello and self.hello.backend.id
            else receipts.BackendIdentity(id=self.backend),
            capabilities=self.hello.capabilities if self.hello else {},
            mode=claim.mode if claim else self.hello.mode if self.hello else "mapped",
            usage_raw={**_object(claim.usage_raw if claim else None), "treadle": self._more(claim)},
            usage=claim.usage if claim else receipts.UsageTotals(),
            trace=trace,
            artifacts=[
                receipts.Artifact(kind=one.kind, path=one.copy or one.path)
                for one in (*self.artifacts, self._patch())
                if one is not None
            ],
            verification=self._verification(),
            outcome=self.outcome(),
        )
        return receipts.normal(_redacted(made, redactor))

    @property
    def failure(self) -> TreadleError | None:
        """Why the run failed. Our reason for stopping it comes before what it did afterwards."""
        return self.stopped or self.error

    def _failure_text(self, failure: TreadleError) -> str:
        return str(failure) if self.error in (None, failure) else f"{failure}; {self.error}"

    def _code(self, failure: TreadleError) -> receipts.ErrorCode | None:
        code = contract_code(failure.code, failure.details)
        early = ("protocol_unexpected_message", "protocol_invalid_envelope", "backend_timeout")
        if self.handshaking and self.stopped is None and code in early:
            return "protocol_handshake_failed"
        return code

    def _error_event(self, failure: TreadleError, ts: str) -> receipts.ErrorMet:
        code = self._code(failure)
        ext: dict[str, Any] = {"observed_by": "treadle", "code": failure.code}
        if isinstance(failure, PeerExited):
            ext["exit_code"] = failure.exit_code
        return receipts.ErrorMet(
            ts=ts, message=self._failure_text(failure), error_code=UNSET if code is None else code, ext=ext
        )

    def outcome(self) -> receipts.Outcome:
        if self.final is None or self.error is not None:
            return "failed"
        if self.stopped is not None and self.stopped.code == "permission_denied":
            return "failed"
        claimed = self.final.receipt.outcome
        doubtful = self.stopped is not None or (self.check is not None and not self.check.ok)
        return "partial" if claimed == "complete" and doubtful else claimed

    def _verification(self) -> receipts.Verification:
        found = self.difference
        diff = found.patch.decode("utf-8", "replace") if found else None
        if diff is not None and len(diff) > DIFF_CAP:
            diff = diff[:DIFF_CAP] + f"\n[{len(diff) - DIFF_CAP} more characters are in {self.patch_path}]\n"
        return receipts.Verification(
            harness_ok=self.check is not None and self.check.ok,
            git_diff=diff,
            git_status=found.status if found else None,
        )

    def _patch(self) -> Collected | None:
        if self.patch_path is None or self.difference is None:
            return None
        patch, path = self.difference.patch, self.patch_path
        sha256 = hashlib.sha256(patch).hexdigest()
        return Collected(kind="patch", path=path, copy=path, sha256=sha256, bytes=len(patch))

    def _order_fields(self) -> dict[str, Any]:
        """What was ordered, so that two receipts can be compared by it."""
        order = self.order
        return {
            "task": own_words(order.task) or order.task,
            "lane": order.lane,
            "model": order.config.model,
            "agent": self.backend,
            "command": list(self.command) or None,
            "context": list(order.context.files),
            "include": list(order.workspace.include),
            "exclude": list(order.workspace.exclude),
            "max_turns": order.config.max_turns,
            "max_budget_usd": order.config.max_budget_usd,
            "base_commit": self.workspace.get("base_commit"),
            "base_tree": self.workspace.get("base_tree"),
            "stored": self.order_path,
        }

    def _more(self, claim: receipts.Receipt | None) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "host": f"treadle {__version__}",
            "observed": self._observations(),
            "claimed": self._claims(claim),
            "differences": self._differences(),
        }

    def _claims(self, claim: receipts.Receipt | None) -> dict[str, Any]:
        """The word of others. What the contract has fields for (`backend`, `usage`, `trace`) is there."""
        stated = claims(claim, self._reported_files(), [*self.trace.commands]) if claim else {"outcome": None}
        return {
            **stated,
            "agent": self.hello.backend.id if self.hello else None,
            "models": _models(claim),
            "artifacts": msgspec.to_builtins(self.artifacts),
            "error": self._own_reason(),
            "stderr_tail": self.stderr_tail[-4000:] or None,
            "unknown_capabilities": {
                note.where.rpartition(".")[2]: note.value
                for note in self.notes
                if note.problem == "unknown capability" and note.where.startswith("hello")
            },
        }

    def _end(self) -> dict[str, Any]:
        failure = self.failure
        return {
            "by": "final" if self.final else "error",
            "code": failure.code if failure else None,
            "error_code": self._code(failure) if failure else None,
            "message": self._failure_text(failure) if failure else None,
            "cancelled_because": str(self.stopped) if self.stopped else None,
            "exit_code": self.exit_code,
        }

    def _own_reason(self) -> dict[str, Any] | None:
        """What the executor itself gives as the reason for a bad end: the last error that it reported."""
        error, good = self.trace.last_error, self.final is not None and self.final.receipt.outcome == "complete"
        if error is None or good:
            return None
        code = None if error.error_code is UNSET else error.error_code
        return {"error_code": code, "message": error.message[:REASON_MAX]}

    def _observations(self) -> dict[str, Any]:
        return {
            "order": self._order_fields(),
            "agent": {"name": self.backend, "command": list(self.command) or None},
            "models": _models(self.final.receipt) if self.own_wire and self.final else None,
            "policy": {
                "rules": msgspec.to_builtins(self.order.policy),
                "enforced": self.enforced,
                "lists": self.enforcement,
                "best_effort": best_effort(self.order),
            },
            "unmet_requirements": self.unmet,
            "confinement": msgspec.to_builtins(self.walls),
            "workspace": {**self.workspace, "applied": msgspec.to_builtins(self.merged)},
            "end": self._end(),
            "earlier_attempts": self.attempts,
            "resumed_after_crash": self.resumed,
            "patch": msgspec.to_builtins(self._patch()),
            "notes": [_noted(note) for note in self.notes[:NOTES]],
            "notes_left_out": max(0, len(self.notes) - NOTES),
            "files": msgspec.to_builtins(self.difference.changes) if self.difference else None,
            **self._hidden(),
            "oddities": msgspec.to_builtins(self.difference.oddities[:NOTES]) if self.difference else None,
            "permissions": msgspec.to_builtins(self.difference.permissions[:NOTES]) if self.difference else None,
            "permissions_left_out": max(0, len(self.difference.permissions) - NOTES) if self.difference else 0,
            "oddities_left_out": max(0, len(self.difference.oddities) - NOTES) if self.difference else 0,
            "processes_seen": None if self.commands_seen is None else list(self.commands_seen),
            "check": self._checked(),
            **({"ending": msgspec.to_builtins(self.ending)} if self.ending else {}),
            "not_observed": not_observed(self.walls, self.difference),
            "events": self.trace.seen,
            "events_left_out": self.trace.left_out,
        }

    def _checked(self) -> dict[str, Any] | None:
        """With the name of the record of the evidence, which is stored after the receipt and has its hash."""
        if self.check is None:
            return None
        record = {"record": self.check.evidence.id} if self.check.evidence else {}
        return {**msgspec.to_builtins(self.check), "ok": self.check.ok, **record}

    def _hidden(self) -> dict[str, Any]:
        """Changes outside the patch: ignored files, `.git`. Names only, and not all if there are very many."""
        hidden = self.difference.hidden if self.difference else None
        if hidden is None:
            return {"hidden": None, "hidden_left_out": 0}
        return {"hidden": [*hidden[:NOTES]], "hidden_left_out": max(0, len(hidden) - NOTES)}

    def _reported_files(self) -> list[str]:
        return relative(self.trace.files, self.order.workspace.root)

    def _differences(self) -> list[str]:
        """Where the claims and the observations disagree, in words."""
        claim = self.final.receipt if self.final else None
        found: list[str] = []
        if claim is not None:
            hello = self.hello.backend.id if self.hello else None
            found += about_identity(claim, self.run_id, self.order.id, hello)
            sent = None if self.trace.left_out else self.trace.events(NOWHEN)
            short = msgspec.structs.replace(claim, trace=[shortened(event) for event in claim.trace])
            found += about_trace(short, sent, self.trace.seen)
        if self.difference is not None:
            complete = len(self.trace.files) < MOST_REPORTED
            found += about_files({*self._reported_files()}, self.difference, complete=complete)
            if claim is not None:
                found += about_patch(claim, self.difference)
        if claim and claim.verification.harness_ok and self.check and not self.check.ok:
            found.append(f"said that the checks passed, and {self.check.command!r} did not")
        found += [f"named {quoted(one.path)}, and {one.problem}" for one in self.artifacts if one.problem]
        return [*found[:NOTES], *([f"and {len(found) - NOTES} more"] if len(found) > NOTES else [])]


NEVER_OBSERVED = (
    "which files were read",
    "owners and times of files",
    "permissions and attributes of directories",
    "files that were changed and changed back",
    "writes that were refused",
    "whether a command that was claimed ran",
    "tokens and cost",
    "times that others state",
)


def not_observed(walls: Walls | None, found: Difference | None) -> list[str]:
    """What was not looked at, so that the receipt's silence about it means nothing."""
    missing = [*NEVER_OBSERVED]
    if found is None:
        missing.append("what was changed in the workspace")
    elif found.hidden is None:
        missing.append("ignored files and .git")
    if walls is None:
        missing.append("files outside the workspace")
    if walls is None or walls.network != "off" or walls.hosts:
        missing.append("what was sent over the network")
    return missing


def _models(claim: receipts.Receipt | None) -> list[str] | None:
    raw = claim.usage_raw if claim is not None else None
    used = raw.get("by_model") if isinstance(raw, dict) else None
    return sorted(map(str, used))[:MOST] if isinstance(used, dict) else None


def best_effort(order: WorkOrder) -> bool:
    """Whether even an agent that cannot be held to the policy may carry out the order."""
    return backplane_setting(order, "best_effort_policy") is True


def backplane_setting(order: WorkOrder, name: str) -> Any:
    """A setting of the backplane, which may be written nested or with a dot."""
    nested = order.config.vendor.get("abp")
    if isinstance(nested, dict) and name in nested:
        return nested[name]
    return order.config.vendor.get(f"abp.{name}")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {} if value is None else {"claimed": value}


def _with_valid_time(event: receipts.AnyAgentEvent, now: str) -> receipts.AnyAgentEvent:
    """An event with an unreadable time is kept and gets the current time."""
    try:
        receipts.normal_time(event.ts)
    except ValueError:
        ext = {} if event.ext is UNSET else event.ext
        return msgspec.structs.replace(event, ts=now, ext={**ext, "ts": event.ts})
    return event


def _noted(note: Deviation) -> dict[str, Any]:
    value = receipts.plain(note.value)
    if len(msgspec.json.encode(value)) > 2000:
        value = str(value)[:2000]
    return {"where": note.where, "problem": note.problem, "value": value}


def _redacted(receipt: receipts.Receipt, redactor: Redactor) -> receipts.Receipt:
    tree = msgspec.to_builtins(receipt)
    # Names from the contract cannot be secrets, and ids that happen to look like one must stay as they are.
    unchanged = {name: tree[name] for name in ("meta", "capabilities", "mode", "outcome")}
    tree = repaired(tree)
    join_deltas(tree["trace"], redactor)
    unchanged["verification"], hidden = _redacted_work(tree.pop("verification"), redactor)
    tree = redactor.tree(tree)
    tree["usage_raw"]["treadle"]["observed"]["patch_lines_redacted"] = hidden
    clean: receipts.Receipt = msgspec.convert({**tree, **unchanged}, receipts.Receipt)
    return clean


def _redacted_work(found: dict[str, Any], redactor: Redactor) -> tuple[dict[str, Any], int]:
    """The changes that we saw, and how many lines of the patch are not shown as they are. An agent writes these texts,
    so each line is redacted by itself: none may hide the others."""
    status, _ = redactor.lines(found["git_status"] or "")
    diff, hidden = redactor.lines(found["git_diff"] or "")
    shown = {
        name: text if found[name] is not None else None for name, text in (("git_status", status), ("git_diff", diff))
    }
    return {**found, **shown}, hidden


def join_deltas(events: list[dict[str, Any]], redactor: Redactor) -> None:
    """Remove secrets from text that was streamed in pieces, none of which need look like a secret on its own."""
    for is_delta, group in groupby(events, key=lambda event: event.get("type") == "assistant_delta"):
        if is_delta:
            deltas = list(group)
            for event, text in zip(deltas, redactor.pieces([str(one.get("text", "")) for one in deltas]), strict=True):
                event["text"] = text
