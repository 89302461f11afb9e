"""What is known about some work, on one screen: for a terminal, the page and the body of a request."""

import re
from collections.abc import Collection, Iterator

import msgspec

from treadle.receipts.trace import ours
from treadle.verification.evidence import CheckEvidence, CornerResult
from treadle.wire.sidecar.receipts import Receipt

CORNERS = {
    "old judge": "its product, the tests of before",
    "work": "all of it",
    "old product": "the product of before, its tests",
    "base": "as it was before",
}
SHOWN = 12
"""Lines of the riskiest hunk, and of each list."""
_TEST = re.compile(
    r"\s*(?:async\s+)?(?:def\s+(test\w*)|func\s+(Test\w+)|fn\s+(\w*test\w*)|(?:test|it)\(\s*[\"'`]([^\"'`]+))"
)
_RISKY = re.compile(r"\b(?:skip|xfail|exit|_exit|abort|except|catch|eval|exec|assert\w*|expect)\b")


def evidence_of(receipt: Receipt) -> CheckEvidence | None:
    """Of the check that was asked for, or else of the project's own."""
    seen = ours(receipt).get("observed") or {}
    found = (seen.get("check") or {}).get("evidence") or (seen.get("ending") or {}).get("evidence")
    return msgspec.convert(found, CheckEvidence) if found else None


def screen(receipt: Receipt) -> Iterator[str]:
    """All that a receipt says about whether its work is good."""
    return map(_one_line, _of_receipt(receipt))


def _of_receipt(receipt: Receipt) -> Iterator[str]:
    more = ours(receipt)
    seen = more.get("observed") or {}
    ending = seen.get("ending") or {}
    yield f"{receipt.outcome}  {receipt.meta.run_id}  {receipt.backend.id}"
    if task := (more.get("order") or {}).get("task"):
        yield f"asked     {' '.join(str(task).split())[:200]}"
    if ending:
        yield f"ending    {ending['state']}: {ending['why']}"
    if (found := evidence_of(receipt)) is None:
        yield "No check was run, so nothing is known about it beside what it says."
        return
    patch = receipt.verification.git_diff
    yield from evidence_lines(found, patch if isinstance(patch, str) else "")


def evidence_lines(found: CheckEvidence, patch: str) -> Iterator[str]:
    return map(_one_line, _of_evidence(found, patch))


def _one_line(text: str) -> str:
    """A file may have a name of several lines, which would look like more of these."""
    return " ".join(text.splitlines())


def _of_evidence(found: CheckEvidence, patch: str) -> Iterator[str]:
    good = "" if found.good else "NOT VERIFIED, "
    yield f"check     {found.command}"
    yield f"word      {good}{found.word}: {found.why}"
    yield f"product   {_some(found.product)}"
    yield f"judge     {_some(found.judge)}"
    for path, why in [*found.doubtful.items()][:SHOWN]:
        yield f"          look at {path}: it {why}, and does more than add tests"
    for corner in found.corners:
        yield f"{corner.ended:9} {CORNERS[corner.corner]}{_counted(corner)}, {corner.seconds:.1f} s"
    for canary in found.canaries:
        where = "at the end of each" if canary.kind == "last" else "when each is loaded"
        noticed = "noticed" if canary.ended == "red" else "NOT noticed"
        yield f"canary    a failure {where} of {canary.files} test files: {noticed}"
    for fault in found.faults:
        noticed = "noticed" if fault.ended == "red" else "NOT noticed"
        yield f"fault     {fault.path}:{fault.line}, `{fault.was[:60]}` as `{fault.now[:60]}`: {noticed}"
    new, gone = _tests(patch, "+"), _tests(patch, "-")
    yield f"tests     new: {_some(new - gone)}; gone: {_some(gone - new)}"
    for missing in found.not_checked:
        yield f"unknown   {missing}"
    if hunk := _riskiest(found, patch):
        yield ""
        yield from hunk


def _some(names: Collection[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return (", ".join(listed[:SHOWN]) or "none") + more


def _counted(corner: CornerResult) -> str:
    counts = corner.counts
    if counts is None:
        return ", number of tests unknown"
    return f", {counts.ran} tests ran, {counts.failed} failed, {counts.skipped} skipped"


def _tests(patch: str, sign: str) -> set[str]:
    found = (_TEST.match(line[1:]) for line in patch.splitlines() if line.startswith(sign))
    return {next(filter(None, one.groups())) for one in found if one is not None}


def _riskiest(found: CheckEvidence, patch: str) -> list[str]:
    """The hunk to look at first: of the judge before the product, with words that can hide a failure, the longest."""
    best: tuple[tuple[int, int, int], list[str]] | None = None
    for file in re.split(r"(?m)^diff --git ", patch)[1:]:
        path = file.split("\n", 1)[0].rpartition(" b/")[2]
        role = 2 if path in found.doubtful else 1 if path in found.judge else 0
        for hunk in re.split(r"(?m)^(?=@@ )", file)[1:]:
            lines = hunk.splitlines()
            changed = [line for line in lines[1:] if line.startswith(("+", "-"))]
            score = (role, sum(len(_RISKY.findall(line)) for line in changed), len(changed))
            if best is None or score > best[0]:
                best = score, [f"look first at {path}:", *(f"    {line}" for line in lines[:SHOWN])]
    return best[1] if best is not None else []
