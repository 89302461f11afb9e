"""Compares what a sidecar claims in its final receipt and its events with what was seen of its run, in words."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from treadle.wire.sidecar.receipts import (
    AnyAgentEvent,
    AssistantDelta,
    Receipt,
    RunCompleted,
    RunStarted,
    normal,
    normal_uuid,
    receipt_hash,
)
from treadle.workspace.changes import quoted
from treadle.workspace.workspace import Difference

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


def claims(claim: Receipt, files: Sequence[str], commands: Sequence[str]) -> dict[str, Any]:
    """What the sidecar says, for the record. `files` and `commands` are those that its events report."""
    try:
        matches: bool | None = claim.receipt_sha256 == receipt_hash(normal(claim)) if claim.receipt_sha256 else None
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


def about_identity(claim: Receipt, run_id: str, order_id: str, backend: str | None) -> Iterator[str]:
    """Whether its receipt is about this run, this order and the program that said hello."""
    for claimed, is_, what in (
        (claim.meta.run_id, run_id, "run"),
        (claim.meta.work_order_id, order_id, "order"),
    ):
        if _uuid(claimed) != _uuid(is_):
            yield f"its receipt is about the {what} {quoted(claimed)}, and this is {is_}"
    if backend and claim.backend.id != backend:
        yield f"its receipt is by {quoted(claim.backend.id)}, and {quoted(backend)} said hello"


def _uuid(text: str) -> str:
    try:
        return normal_uuid(text)
    except ValueError:
        return text


def about_trace(claim: Receipt, streamed: Sequence[AnyAgentEvent] | None, number: int) -> Iterator[str]:
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


def _counts(event: AnyAgentEvent) -> bool:
    return not isinstance(event, AssistantDelta | RunStarted | RunCompleted)


def _content(event: AnyAgentEvent) -> bytes:
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


def about_patch(claim: Receipt, found: Difference) -> Iterator[str]:
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
