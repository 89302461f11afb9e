"""What it costs to brief the tasks of a plan that someone wrote: each agent with the whole plan, or with its section.

The tasks are the plan's innermost sections, without those on rules and invariants, which every agent gets in both.
"""

import os
from collections.abc import Iterator

from treadle.coordination.briefs import headings
from treadle.coordination.ledger import change_percent, signed
from treadle.coordination.planning import Planning, write_text
from treadle.coordination.waves import WaveTask, build_wave
from treadle.errors import NotFound
from treadle.wire.common.jsontext import dumps

RULES = ("invariant", "rule", "how we work", "convention", "constraint")
"""Words in the headings of sections that everybody who works on a plan has to read, whatever the task."""
CACHED = 0.9
"""The discount of a provider for the beginning of a prompt that it has just seen."""
WRITTEN = 5
"""What a written token costs, in tokens that are read."""


class PlanSection:
    def __init__(self, anchor: str, text: str, *, rule: bool, leaf: bool) -> None:
        self.anchor, self.text = anchor, text
        self.title, _, self.body = text.partition("\n")
        self.rule, self.leaf = rule, leaf


def sections(plan: str) -> list[PlanSection]:
    rows, lines = headings(plan), plan.splitlines()
    found: list[PlanSection] = []
    above: list[tuple[int, bool]] = []
    for place, (anchor, row, level) in enumerate(rows):
        above = [(outer, rule) for outer, rule in above if outer < level]
        rule = any(word in lines[row].lower() for word in RULES) or any(rule for _, rule in above)
        above.append((level, rule))
        end = next((other for _, other, depth in rows[place + 1 :] if depth <= level), len(lines))
        leaf = place + 1 == len(rows) or rows[place + 1][2] <= level
        found.append(PlanSection(anchor, "\n".join(lines[row:end]), rule=rule, leaf=leaf))
    return found


def tasks_of(plan: str) -> list[PlanSection]:
    return [one for one in sections(plan) if one.leaf and not one.rule and one.body.strip()]


def measure(plan: str, name: str) -> Iterator[str]:
    """The lines to print. `name`: the plan's file, as a command would name it."""
    import tempfile

    from treadle.sessions.tokens import estimate

    tasks = tasks_of(plan)
    if len(tasks) < 2:
        raise NotFound(f"{name} has fewer than two sections that could be tasks", hint="tasks are sections with a text")
    rules = "\n".join(one.text for one in sections(plan) if one.rule and one.leaf)
    with tempfile.TemporaryDirectory() as scratch:
        planning = Planning(os.path.join(scratch, ".planning"), project=scratch)
        write_text(os.path.join(scratch, "rules.md"), rules)
        listed = [WaveTask(one.anchor, one.text) for one in tasks]
        wave = build_wave(planning, listed, "rules.md" if rules else "")
    number, whole = len(tasks), estimate(f"You are working on this plan.\n\n{plan}\n")
    asked = [
        f"# Your task\n\nDo: {one.title}. Keep every rule of the plan, and report what you did.\n" for one in tasks
    ]
    answers = sum(estimate(dumps(_result(one.anchor))) for one in tasks)
    before = number * whole + sum(map(estimate, asked))
    shared, own = estimate(wave.shared), sum(map(estimate, wave.own.values()))
    after = number * shared + own + answers
    yield f"v1 orchestration (briefing {number} spawns, verbatim): {before} tokens (baseline)"
    yield f"v2 orchestration ({number} briefs from the plan's sections + {number} typed results): {after} tokens"
    yield f"measured delta: orchestration: {before} -> {after} tokens ({_change(before, after)})"
    yield f"orchestration: {(before + 500) // 1000}k → {after} tokens, measured."
    saved = CACHED * (number - 1)
    before, after = round(before - saved * whole), round(after - saved * shared)
    cached = "where a prompt's beginning is cached, at a tenth of the price"
    yield f"{cached}: {before} -> {after} tokens' worth ({_change(before, after)})"
    typed = sum(estimate(one.text) for one in tasks)
    least = round(typed + shared * (1 + (1 - CACHED) * (number - 1)))
    yield f"no briefs could cost less than {least} there: each section is read once at the full price, as in v1"
    command = 'heimdall-brief build --task {0} --spec "{1}#{0}"\n'
    named = sum(estimate(command.format(one.anchor, name)) for one in tasks)
    before += WRITTEN * sum(map(estimate, asked))
    for how, words in (("named (--spec FILE#HEADING)", named), ("typed again", typed)):
        cost = after + WRITTEN * words
        written = f"and with what the orchestrator writes, at {WRITTEN} times the price, specs {how}"
        yield f"{written}: {before} -> {cost} tokens' worth ({_change(before, cost)})"
    yield "(all texts were built; their tokens are estimated by one rule, as no model was asked: whether as many tasks"
    yield " pass was not measured)"


def _change(before: int, after: int) -> str:
    return f"{signed(change_percent(before, after))}%"


def _result(task: str) -> dict[str, object]:
    return {
        **{"type": "task_result", "from": "coder", "msg_id": f"r-{task}", "task": task, "status": "pass"},
        **{"criteria": [1, 2], "commit": "a2ef507", "capsule": f"done-{task}"},
    }
