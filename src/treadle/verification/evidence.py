"""What was checked and how it ended: one record, with one word that follows from it."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.io.files import read

Word: TypeAlias = Literal["proven", "tested", "passed", "weak", "judge changed", "not run", "failed"]
"""From the best to the worst:

    proven          the branch's own tests were red on the base, and are green
    tested          with the tests of the work, it is red on the base's product and green on that of the work
    passed          the branch's check passes on the product of the work
    weak            it passes, and would also pass if a test failed or what was changed were wrong
    judge changed   it passes only with the judge that the work changed
    not run         the runner says that no test ran
    failed          it does not pass
"""
LEVELS = ("passed", "tested", "proven")
"""The words of verified work, from the least on."""
GOOD: frozenset[str] = frozenset(LEVELS)
Corner: TypeAlias = Literal["work", "old judge", "old product", "base"]
"""work: all of the work; old judge: its product with the base's judge; old product: the other way round."""
Ended: TypeAlias = Literal["green", "red"]


class Counts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a runner said about its run."""

    runner: str
    ran: int
    """Tests that passed or failed: not those that were skipped."""
    failed: int = 0
    skipped: int = 0


class CornerResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the check ended on one tree."""

    corner: Corner
    tree: str
    ended: Ended
    counts: Counts | None = None
    seconds: float = 0.0


class PlantedFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault in a line that the work changed, and whether the check noticed it."""

    path: str
    line: int
    was: str
    now: str
    ended: Ended


class CanaryResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a check noticed what must fail."""

    kind: Literal["last", "load"]
    files: int
    ended: Ended
    on_base: Ended | None = None
    """On the base, where it was asked: a check that never loads the test files does not notice it there either."""
    more: int = 0
    """Tests that pass without it, and fail with it."""


def evidence_id(base: str, tree: str, command: str) -> str:
    """The name of the evidence for what `tree` changes of `base`, by this command."""
    return hashlib.sha256("\0".join((base, tree, command)).encode("utf-8", "surrogateescape")).hexdigest()[:32]


class CheckEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about whether work is good, by tree and command."""

    format: int = 1
    command: str
    base: str
    tree: str
    word: Word
    why: str
    product: tuple[str, ...] = ()
    judge: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    """Files of the judge that the work may change, and that were checked as part of it."""
    doubtful: Mapping[str, str] = {}
    """Of `judge`, what does more than add tests, and why it is judge."""
    corners: tuple[CornerResult, ...] = ()
    canaries: tuple[CanaryResult, ...] = ()
    faults: tuple[PlantedFault, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return evidence_id(self.base, self.tree, self.command)

    @property
    def good(self) -> bool:
        return self.word in GOOD


def reaches(word: str, wanted: str) -> bool:
    """Whether work with this word shows what is wanted: one of LEVELS, or nothing. No other word is ever enough."""
    return not wanted or word in GOOD and wanted in GOOD and LEVELS.index(word) >= LEVELS.index(wanted)


def word_for(
    corners: Sequence[CornerResult], canaries: Sequence[CanaryResult], faults: Sequence[PlantedFault] = ()
) -> tuple[Word, str]:
    """The word for what was seen, and the reason as one sentence."""
    by = {each.corner: each for each in corners}
    main = by["old judge"]
    work = by.get("work")
    if main.ended == "red":
        if work is not None and work.ended == "green":
            return "judge changed", "the check passes only with the tests or configuration that the work changed"
        before = by.get("base")
        return "failed", "the check failed" + (", as it does on the base" if before and before.ended == "red" else "")
    if work is not None and work.ended == "red":
        return "failed", "the check fails with the tests that the work added or changed"
    if work is not None and main.counts is not None and (work.counts is None or work.counts.ran < main.counts.ran):
        return "judge changed", "fewer tests run with the tests or configuration that the work changed"
    if main.counts is not None and main.counts.ran == 0:
        return "not run", f"{main.counts.runner} ran no test"
    if lost := next((each for each in canaries if each.ended == "green" and each.on_base == "red"), None):
        return "failed", _lost(lost)
    if any(each.more for each in canaries):
        return "failed", "tests of the branch fail when one is added to them: the work looks at its tests"
    if any(each.ended == "green" and each.on_base == "green" for each in canaries if each.kind == "last"):
        if any(each.ended == "red" for each in canaries):
            return "weak", "the check loads the tests, and passes also when one of them fails"
    if faults and all(each.ended == "green" for each in faults):
        return "weak", "the check passes also with faults in the lines that the work changed"
    if (base := by.get("base")) is not None and base.ended == "red":
        return "proven", "the check failed on the base and passes now"
    if (older := by.get("old product")) is not None and older.ended == "red":
        return "tested", "the check passes with the tests of the work, and fails with them without its product"
    return "passed", "the check of the branch passes on the product of the work"


def _lost(canary: CanaryResult) -> str:
    if canary.kind == "last":
        return "the check passes also when a test fails, which it does not on the base: the work ends it early"
    return "the check no longer loads the tests, which it does on the base"


# How many tests ran, as their runner says. The code under test can print these words, too: no count is proof alone.

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@cache
def _runners() -> list[dict[str, Any]]:
    import tomllib  # imported late: most runs count nothing

    return list(tomllib.loads(read(os.path.join(os.path.dirname(__file__), "runners.toml")).decode())["runner"])


def counted(output: str) -> Counts | None:
    """What the runner whose words are in the output says; None if none is known."""
    text = _COLOUR.sub("", output)
    for runner in _runners():
        signs = [found.group() for found in re.finditer(runner["sign"], text)]
        if signs:
            return _read(runner, signs[-1] if runner.get("last") else text)
    return None


def _read(runner: dict[str, Any], text: str) -> Counts:
    def total(kind: str) -> int:
        found = re.findall(runner[kind], text) if kind in runner else []
        return len(found) if runner.get("lines") else sum(map(int, found))

    failed, skipped = total("failed"), total("skipped")
    ran = max(0, total("tests") - skipped) if "tests" in runner else total("passed") + failed
    return Counts(runner=runner["name"], ran=ran, failed=failed, skipped=skipped)
