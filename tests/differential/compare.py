"""Every scenario on Claude Code and on us: same, different, or said. `python -m tests.differential.compare [WORDS]`.

With WORDS only the scenarios that have one of them in their names are run, and no page is written; `--page` writes it
from what earlier runs found. A run that was broken off goes on from there: delete the results to begin anew. With
`--ours` only Treadle is run, and compared with what Claude Code did when it was last run.

A fact that differs is *said* if the program told it at run time (on stderr, in an error, in the answer) or if it is
listed in `REASONS` as a difference on purpose, which the documentation names; anything else is a silent difference.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import claude_agent_sdk as sdk

from tests.differential import files, generated, inventory, options
from tests.differential.reasons import REASONS, TOLD
from tests.differential.scenarios import SCENARIOS
from tests.drivers.programs import CACHE
from tests.drivers.programs import PROGRAMS as PROGRAMS_OF
from tests.live.test_claude_sdk import SDK

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "claude-compared.md"
RESULTS = CACHE.parent / "compared.jsonl"
"""What a run has found so far: one that was interrupted goes on from here."""
AT_ONCE = 3
"""How many scenarios run at the same time."""
SEED = 35
"""Of the order in which scenarios are run: what a run that was broken off has found is a sample, and no first part."""
MADE_BY = (generated, options, files)
"""Each adds its scenarios when it is imported."""


LATE = ("TimeoutError", "Control request timeout")
"""Words of a host that has waited in vain."""


class TooSlow(Exception):
    """A program got so little of the machine that it cannot be compared now: the scenario counts as not run."""


class Check(NamedTuple):
    scenario: str
    fact: str
    verdict: str
    theirs: Any
    ours: Any
    why: str = ""


async def run(name: str, parent: Path, known: dict[str, Any] | None = None) -> tuple[list[Check], dict[str, Any]]:
    """The checks, and what Claude Code did; `known`: that, if it need not be run again."""
    theirs = known if known is not None else await facts_of(name, "claude", parent)
    ours = await facts_of(name, "treadle", parent)
    said = [str(line) for line in ours.pop("_said", [])]
    theirs.pop("_said", None)
    facts = [fact for fact in sorted(theirs | ours) if theirs.get(fact) is not None or ours.get(fact) is not None]
    compared = [fact for fact in facts if _compares(fact, theirs, ours)]
    return [_check(name, fact, theirs.get(fact), ours.get(fact), said) for fact in compared], theirs


def _compares(fact: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether this says anything: not so the fields of a message or event that came on neither side, or on one alone.
    That it did not come is a fact of its own."""
    came = f"{fact.partition('.')[0]} comes"
    return fact == came or came not in theirs or theirs[came] is True and ours.get(came) is True


async def facts_of(name: str, program: str, parent: Path) -> dict[str, Any]:
    """What was seen; a program that ran out of time, as on a busy machine, has a second chance."""
    facts: dict[str, Any] = {}
    for chance in ("first", "second"):
        try:
            facts = await SCENARIOS[name](program, parent / program / chance)
        except Exception as error:
            facts = {"broke": f"{type(error).__name__}: {error}", "_said": [f"TimeoutError: {error}"]}
        if not any(word in str(line) for word in LATE for line in facts["_said"]):
            return facts
    raise TooSlow(f"{program} did not answer in time, twice")


def _check(scenario: str, fact: str, theirs: Any, ours: Any, said: list[str]) -> Check:
    if theirs == ours or {str(theirs), str(ours)} == {"None", "[]"}:
        return Check(scenario, fact, "same", theirs, ours)
    reason = next((why for (at, what), why in REASONS.items() if fnmatch(scenario, at) and fnmatch(fact, what)), None)
    if reason is not None:
        return Check(scenario, fact, "said", theirs, ours, reason)
    subject = subject_of(scenario, fact)
    told = next((word for word in TOLD for line in said if word in line and subject in line), None)
    return Check(
        scenario, fact, "said" if told else "different", theirs, ours, f"told at run time: {told}" if told else ""
    )


def subject_of(scenario: str, fact: str) -> str:
    """What a line must name in order to tell of this difference; empty where the scenario is about one thing."""
    if scenario.startswith("types:"):
        return fact.partition(":")[0].partition(" ")[0].partition(".")[0]
    kind, _, name = scenario.partition(" ")
    return name.rpartition(".")[2] if kind in ("flag", "setting") else ""


async def main(words: list[str]) -> int:
    os.environ.setdefault("CLAUDE_CODE_STREAM_CLOSE_TIMEOUT", "150000")  # how long its SDK waits for `initialize`
    ours = "--ours" in words
    words = [word for word in words if word != "--ours"]
    if words == ["--page"]:
        PAGE.write_text(page([check for checks in results(RESULTS).values() for check in checks]))
        return 0
    names = [name for name in SCENARIOS if not words or any(word in name for word in words)]
    random.Random(SEED).shuffle(names)
    limit = asyncio.Semaphore(AT_ONCE)
    kept, before = results(RESULTS), claude_did(RESULTS)
    with tempfile.TemporaryDirectory() as folder, RESULTS.open("a") as file:

        async def one(number: int, name: str) -> list[Check]:
            if name in kept and not words and not ours:
                return kept[name]
            async with limit:
                known = before.get(name) if ours else None
                try:
                    kept[name], theirs = await run(name, Path(folder) / str(number), known)
                except TooSlow as error:
                    print(f"not run   {name}: {error}", flush=True)
                    return []
            for check in kept[name]:
                if check.verdict != "same":
                    sides = f"theirs {check.theirs!r:.100}, ours {check.ours!r:.100}"
                    print(f"{check.verdict:<9} {check.scenario}: {check.fact}: {sides} {check.why}", flush=True)
            file.write(json.dumps([name, kept[name], theirs], default=str) + "\n")
            file.flush()
            return kept[name]

        every = await asyncio.gather(*(one(number, name) for number, name in enumerate(names)))
    checks = [check for found in every for check in found]
    count = Counter(check.verdict for check in checks)
    print(summary(checks))
    left = {kind: names for kind, names in generated.uncompared().items() if names}
    for kind, names in left.items():
        print(f"no scenario for these {kind}: {', '.join(names)}")
    if not words:
        PAGE.write_text(page(checks))
    return 1 if count["different"] or left else 0


def results(path: Path) -> dict[str, list[Check]]:
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {name: [_judged_again(Check(*check)) for check in checks] for name, checks, *_ in found if name in SCENARIOS}


def claude_did(path: Path) -> dict[str, dict[str, Any]]:
    """By scenario, what Claude Code did when it was last run."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: dict(theirs) for name, _, *more in map(json.loads, lines) for theirs in more}


def _judged_again(check: Check) -> Check:
    """With the reasons of today."""
    told = [check.why] if check.verdict == "said" else []
    again = _check(check.scenario, check.fact, check.theirs, check.ours, told)
    return check if again.verdict == "different" and check.verdict == "said" else again


def summary(checks: list[Check]) -> str:
    count = Counter(check.verdict for check in checks)
    share = 100 * count["same"] / max(len(checks), 1)
    told = f"{count['same']} same ({share:.1f} %), {count['said']} said, {count['different']} different"
    return f"{len(checks)} checks in {len({check.scenario for check in checks})} scenarios: {told}"


INTRODUCTION = """\
# Compared with Claude Code

`make test-compatibility` runs the same programs on Claude Code {claude} and on `treadle`, with the same scripted model,
and writes this page. It covers the types of the Python SDK ({python}) and of the TypeScript SDK ({typescript}), and
`claude --help`: {counts}.

*Said*: a difference that the program reports at run time, or that is intended and explained here. *Different*: a bug.
"""


def introduction() -> str:
    counts = {
        "options": inventory.python_options(),
        "hook events": inventory.hook_events(),
        "control requests": inventory.control_requests(),
        "messages": inventory.messages(),
        "flags": inventory.flags(),
    }
    told = ", ".join(f"{len(names)} {kind}" for kind, names in counts.items())
    versions = {
        "python": sdk.__version__,
        "typescript": SDK.rpartition("@")[2],
        "claude": PROGRAMS_OF["claude"].version,
    }
    return INTRODUCTION.format(**versions, counts=told)


def _by_reason(checks: list[Check]) -> dict[str, list[str]]:
    """The differences that are said or meant: by reason, the scenarios (or fields) that show them."""
    found: dict[str, list[str]] = {}
    for check in checks:
        if check.verdict == "said":
            places = found.setdefault(check.why or "**not explained**", [])
            place = check.fact if check.scenario.startswith("types:") else check.scenario
            places.append(place)
    return found


def page(checks: list[Check]) -> str:
    ran = {check.scenario for check in checks}
    left = (
        f" Of {len(SCENARIOS)} scenarios {len(SCENARIOS) - len(ran)} were not run." if len(ran) < len(SCENARIOS) else ""
    )
    lines = [
        introduction(),
        f"{summary(checks)}.{left}",
        "",
        "Differences, with a place where each shows:",
        "",
    ]
    lines += [f"- {why} ({places[0]})" for why, places in _by_reason(checks).items()]
    wrong = [check for check in checks if check.verdict == "different"]
    if wrong:
        lines += ["", "| Scenario | What | Claude Code | Treadle |", "|---|---|---|---|"]
    for check in wrong:
        shown = [_cell(check.scenario), _cell(check.fact), _value(check.theirs), _value(check.ours)]
        lines.append(f"| {' | '.join(shown)} |")
    meant = {(at, what): why for (at, what), why in REASONS.items() if at != "*" and at in SCENARIOS and at not in ran}
    if meant:
        lines += [
            "",
            "Differences that are meant, in scenarios that were not run:",
            "",
        ]
        lines += [f"- {why} ({at}: {what})" for (at, what), why in meant.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{_cell(text[:70])}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
