"""What a wave (three tasks started together) costs in tokens, briefed verbatim and by reference, on real
specifications.

The plans are pages of this project's reference in three sizes: implementing a page means one task per section.
Verbatim, each agent is given the pages and the project's rules. By reference, it is given its own section, and reads
the rules and every section that defines a word its own uses: pages refer to each other a lot, and that cost is counted
in full. Each figure is the mean over waves from the whole plan. Tokens are estimated by one rule, because no model is
asked; neither way counts the code that agents read, which is the same for both.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from pathlib import Path

from treadle.coordination.briefs import WaveTask, build, build_wave
from treadle.coordination.demo import CACHED
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning
from treadle.sessions.tokens import estimate

TOP = Path(__file__).parent.parent
REFERENCE = TOP / "docs" / "reference"
PLANS = {
    "one page": ["worker-protocol"],
    "three pages": ["coordination-protocol", "heimdall-commands", "ledger-mcp"],
    "all pages": sorted(path.stem for path in REFERENCE.glob("*.md")),
}
WAVE = 3
WAVES = 24
"""The most waves that are built from one plan."""
RESULT = 60
"""The tokens of a typed result, as the demo has them."""


class Section:
    def __init__(self, page: str, text: str) -> None:
        self.page, self.text = page, text
        self.title = text.partition("\n")[0].strip("# ")
        self.uses = set(re.findall(r"`([^`\n]+)`", text))
        self.defines = set(re.findall(r"^(?:\||-) ?`([^`\n]+)`", text, re.M))

    def needs(self, plan: list[Section]) -> list[Section]:
        """The sections that define what this one uses and does not define: of its own page first, else the nearest."""
        here, found = plan.index(self), {}
        for word in self.uses - self.defines:
            there = [other for other in plan if word in other.defines]
            if there:
                near = min(there, key=lambda other: (other.page != self.page, abs(plan.index(other) - here)))
                found[plan.index(near)] = near
        return list(found.values())


def sections(page: str) -> list[Section]:
    parts = re.split(r"^(?=##+ )", (REFERENCE / f"{page}.md").read_text(), flags=re.M)
    return [Section(page, part) for part in parts if part.startswith("##")]


def rules() -> str:
    return (TOP / "CONTRIBUTING.md").read_text().partition("## Rules of the house\n")[2].partition("\n## ")[0]


def costs(plan: list[Section], begin: int) -> dict[str, tuple[float, float]]:
    """What a wave that begins at this section costs verbatim and by reference, for each way of counting."""
    wave = plan[begin : begin + WAVE]
    common = estimate(f"You are working on this plan.\n\n{''.join(one.text for one in plan)}\n# Rules\n\n{rules()}")
    own = sum(estimate(f"# Your task\n\nImplement the section {one.title!r}, and report what you did.") for one in wave)
    needed = {one.title: one.needs(plan) for one in wave}
    looked_up = sum(estimate(other.text) for others in needed.values() for other in others)
    with tempfile.TemporaryDirectory() as scratch:
        planning = Planning(f"{scratch}/.planning", project=scratch)
        Path(scratch, "RULES.md").write_text(rules())
        ids = {other.text: f"S{number}" for number, other in enumerate(plan)}
        for others in needed.values():
            for other in others:
                Symbols(planning).set(ids[other.text], f"docs/reference/{other.page}.md, {other.title}")
        tasks = [
            WaveTask(str(begin + number), one.text, ",".join(ids[other.text] for other in needed[one.title]))
            for number, one in enumerate(wave)
        ]
        briefs = sum(
            estimate(build(planning, one.task, one.spec, ",".join(one.symbols), "", "RULES.md")) for one in tasks
        )
        alike = build_wave(planning, tasks, "RULES.md")
    rest = looked_up + WAVE * RESULT
    again = 1 + (1 - CACHED) * (WAVE - 1)
    by_reference = briefs + WAVE * estimate(rules()) + rest
    shared = estimate(alike.shared) * again + sum(map(estimate, alike.own.values()))
    return {
        "uncached": (WAVE * common + own, by_reference),
        "cached": (common * again + own, by_reference),
        "cached, briefs begin alike": (common * again + own, shared + rest),
    }


def percent(before: float, after: float) -> float:
    return 100 * (after - before) / before


def main() -> None:
    print(f"{WAVE} spawns, with all that each has to read; mean over waves (and the waves with least and most saved)")
    print(f"{'plan':12} {'tasks':>5} {'tokens':>7}  {'':27} verbatim -> by reference")
    for name, pages in PLANS.items():
        plan = [section for page in pages for section in sections(page)]
        begins = range(0, len(plan) - WAVE + 1, max(1, (len(plan) - WAVE + 1) // WAVES))
        found = [costs(plan, begin) for begin in begins]
        head = f"{name:12} {len(plan):5} {estimate(''.join(one.text for one in plan)):7,}"
        for way in found[0]:
            before, after = (statistics.mean(each[way][side] for each in found) for side in (0, 1))
            saved = [percent(*one[way]) for one in found]
            least_and_most = f"{max(saved):+.0f} to {min(saved):+.0f}"
            print(
                f"{head}  {way:27} {before:7,.0f} -> {after:6,.0f} ({percent(before, after):+.0f} %; {least_and_most})"
            )
            head = " " * len(head)


if __name__ == "__main__":
    main()
