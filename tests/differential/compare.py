"""Every scenario on Claude Code and on us: same, different, or said. `python -m tests.differential.compare [WORDS]`.

A fact that differs is *said* if the program told it at run time (on stderr, in an error, in the answer) or if it is
listed in `REASONS` as a difference on purpose, which the documentation names; anything else is a silent difference.
"""

import asyncio
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tests.differential.reasons import REASONS, TOLD
from tests.differential.scenarios import SCENARIOS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "claude-compared.md"
PROGRAMS = ("claude", "treadle")


class Check(NamedTuple):
    scenario: str
    fact: str
    verdict: str
    theirs: Any
    ours: Any
    why: str = ""


async def run(name: str, parent: Path) -> list[Check]:
    found = {}
    for program in PROGRAMS:
        try:
            found[program] = await SCENARIOS[name](program, parent / program)
        except Exception as error:
            found[program] = {"broke": f"{type(error).__name__}: {error}", "_said": []}
    theirs, ours = found["claude"], found["treadle"]
    said = "\n".join(map(str, ours.pop("_said", [])))
    theirs.pop("_said", None)
    return [_check(name, fact, theirs.get(fact), ours.get(fact), said) for fact in sorted(theirs | ours)]


def _check(scenario: str, fact: str, theirs: Any, ours: Any, said: str) -> Check:
    if theirs == ours:
        return Check(scenario, fact, "same", theirs, ours)
    reason = REASONS.get((scenario, fact)) or REASONS.get((scenario, "*")) or REASONS.get(("*", fact))
    if reason is not None:
        return Check(scenario, fact, "said", theirs, ours, reason)
    told = next((word for word in TOLD if word in said), None)
    return Check(
        scenario, fact, "said" if told else "different", theirs, ours, f"told at run time: {told}" if told else ""
    )


async def main(words: list[str]) -> int:
    names = [name for name in SCENARIOS if not words or any(word in name for word in words)]
    limit = asyncio.Semaphore(4)

    async def one(name: str, parent: Path) -> list[Check]:
        async with limit:
            found = await run(name, parent)
        for check in found:
            if check.verdict != "same":
                sides = f"theirs {check.theirs!r:.100}, ours {check.ours!r:.100}"
                print(f"{check.verdict:<9} {check.scenario}: {check.fact}: {sides} {check.why}", flush=True)
        return found

    with tempfile.TemporaryDirectory() as folder:
        parents = [Path(folder) / str(number) for number in range(len(names))]
        every = await asyncio.gather(*map(one, names, parents))
    checks = [check for found in every for check in found]
    count = Counter(check.verdict for check in checks)
    print(summary(checks))
    if not words:
        PAGE.write_text(page(checks))
    return 1 if count["different"] else 0


def summary(checks: list[Check]) -> str:
    count = Counter(check.verdict for check in checks)
    share = 100 * count["same"] / max(len(checks), 1)
    told = f"{count['same']} same ({share:.1f} %), {count['said']} said, {count['different']} different"
    return f"{len(checks)} checks in {len({check.scenario for check in checks})} scenarios: {told}"


INTRODUCTION = """\
# Compared with Claude Code

`make test-compatibility` runs the same programs on Claude Code 2.1.325 and on `treadle`, behind the same Python SDK
(0.2.182) and the same scripted model, and compares what happened: every option, hook, control request and field of a
message that the SDK's types name. This page is its last result.

*Said* is a difference that the program tells at run time, or that is meant and has its reason here; *different* is one
that it should not have.
"""


def page(checks: list[Check]) -> str:
    lines = [
        INTRODUCTION,
        f"{summary(checks)}.",
        "",
        "| Scenario | What | Claude Code | Treadle | Why |",
        "|---|---|---|---|---|",
    ]
    for check in checks:
        if check.verdict != "same":
            shown = [_cell(check.scenario), _cell(check.fact), _value(check.theirs), _value(check.ours)]
            lines.append(f"| {' | '.join(shown)} | {_cell(check.why or '**not explained**')} |")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{_cell(text[:70])}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
