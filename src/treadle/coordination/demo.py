"""A demonstration: one wave of work (tasks given out together), briefed twice, verbatim and by reference. Both are
really built, and the same rule estimates the tokens of both.

Verbatim, each of three spawned agents gets the whole plan, the reports of the finished wave and its task. By reference,
there is a symbol table, and each agent gets a delta brief and answers with a typed message. The ledger does the sums.
"""

import os
from collections.abc import Iterator
from typing import Any

from treadle.coordination import briefs
from treadle.coordination.briefs import Wave, WaveTask, build_wave
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Ledger, Symbols, change_percent, signed
from treadle.coordination.planning import Planning, write_text
from treadle.io.files import read
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.heimdall.messages import faults

RULES = ("invariant", "rule", "how we work", "convention", "constraint")
"""Words in the headings of sections that everybody who works on a plan has to read, whatever the task."""
CACHED = 0.9
"""The discount of a provider for the beginning of a prompt that it has just seen."""
ROLE = "orchestration"
_HERE = os.path.join(os.path.dirname(__file__), "demo_wave")


def demo(keep: str = "") -> Iterator[str]:
    """The lines to print. With `keep`, everything that was counted is left in that directory."""
    plan, given = _read("plan.md"), wave_given()["tasks"]
    import tempfile

    from treadle.sessions.tokens import estimate

    with tempfile.TemporaryDirectory() as scratch:
        planning = Planning(os.path.join(scratch, ".planning"), project=scratch)
        ledger = Ledger(planning)
        before, after = verbatim(), by_reference(planning)
        write_text(os.path.join(scratch, "INVARIANTS.md"), rules())
        tasks = [WaveTask(task["task"], task["spec"], task["symbols"], task["capsules"]) for task in given]
        wave = build_wave(planning, tasks, "INVARIANTS.md")
        base = sum(estimate(text) for text in before.values())
        ledger.baseline(ROLE, base)
        for name, text in after.items():
            ledger.log(ROLE, name.partition(" ")[0], estimate(text), msg_id=name, source="estimated", run="demo")
        (row,) = ledger.delta(ROLE, "demo")
    for name, text in (before | after).items() if keep else ():
        write_text(os.path.join(os.path.abspath(keep), name.replace(" ", "-") + ".txt"), text)
    measured = row["measured"]
    yield f"v1 orchestration (briefing {len(before)} spawns, verbatim): {base} tokens (baseline)"
    yield (
        f"v2 orchestration (symbol table + {len(given)} delta briefs + {len(given)} typed results): {measured} tokens"
    )
    yield f"measured delta: {ROLE}: {base} -> {measured} tokens ({signed(row['percent'])}%)"
    yield f"{ROLE}: {(base + 500) // 1000}k → {measured} tokens, measured."
    beside = measured - sum(estimate(text) for name, text in after.items() if name.startswith("delta_brief"))
    yield from _in_full(plan, before, measured, wave, beside)
    yield "(all texts were built; their tokens are estimated by one rule, as no model was asked)"


def _in_full(plan: str, before: dict[str, str], measured: int, wave: Wave, beside: int) -> Iterator[str]:
    """The same comparison, counting also what a brief only refers to, and then at the prices of a cached prompt.

    For the latter the briefs are those of a wave, which begin alike; `beside` counts the tokens outside the briefs.
    """
    from treadle.sessions.tokens import estimate

    spawns, base = len(before), sum(estimate(text) for text in before.values())
    shared, read = estimate(_restated(plan)), estimate(rules())
    full = measured + spawns * read
    yield (
        f"with the invariants and rules that each spawn then reads: {base} -> {full} tokens"
        f" ({signed(change_percent(base, full))}%)"
    )
    saved = CACHED * (spawns - 1)
    begins = estimate(wave.shared)
    given = beside + spawns * begins + sum(map(estimate, wave.own.values()))
    base, full = round(base - saved * shared), round(given - saved * begins)
    yield (
        f"where a prompt's beginning is cached, at a tenth of the price, and briefs begin alike: {base} -> {full}"
        f" tokens' worth ({signed(change_percent(base, full))}%)"
    )


def rules() -> str:
    """What a brief's `INVARIANTS REF` points to: the plan's invariants and working rules."""
    sections = f"\n{_read('plan.md')}".split("\n## ")[1:]
    return "\n## ".join(part for part in sections if any(word in part.partition("\n")[0].lower() for word in RULES))


def _restated(plan: str) -> str:
    """The common beginning of every verbatim brief."""
    return f"You are working on this plan.\n\n{plan}\n# What was done so far\n\n{_read('reports.md')}\n"


def verbatim() -> dict[str, str]:
    """What each spawned agent is told when everything is restated: the plan, what was done before, and the task."""
    restated = _restated(_read("plan.md"))
    return {
        f"verbatim {task['task']}": f"{restated}"
        f"# Your task\n\nDo task {task['task']} of wave 2. {task['spec']}\nKeep every invariant of the plan, meet the"
        f" criteria {', '.join(f'C{number}' for number in task['criteria'])}, and report what you did.\n"
        for task in wave_given()["tasks"]
    }


def by_reference(planning: Planning) -> dict[str, str]:
    """The symbol table, and for each spawned agent its delta brief and its answer."""
    symbols, capsules, wave = Symbols(planning), Capsules(planning), wave_given()
    for name, value in wave["symbols"].items():
        symbols.set(name, value)
    for capsule in wave["capsules"]:
        capsules.write(**capsule)
    texts = {"symbol_table": "".join(f"{name}\t{value}\n" for name, value in symbols.all().items())}
    for task in wave["tasks"]:
        name = task["task"]
        texts[f"delta_brief {name}"] = briefs.build(
            planning, name, task["spec"], task["symbols"], task["capsules"], "INVARIANTS.md"
        )
        result = {
            "type": "task_result",
            "from": "coder",
            "msg_id": f"r{name}",
            "task": name,
            "status": "pass",
            "criteria": task["criteria"],
            "commit": "a2ef507",
            "capsule": f"w2-{name}",
        }
        assert not faults(result)
        texts[f"task_result {name}"] = dumps(result)
    return texts


def wave_given() -> Any:
    """The symbols, the finished work and the tasks of the demonstration."""
    return loads(_read("wave.json"))


def _read(name: str) -> str:
    return read(os.path.join(_HERE, name)).decode()
