"""A demonstration: one wave of work (tasks given out together), briefed twice, verbatim and by reference. Both are
really built, and the same rule estimates the tokens of both.

Verbatim, each of three spawned agents gets the whole plan, the reports of the finished wave and its task. By reference,
there is a symbol table, and each agent gets a delta brief and answers with a typed message. The ledger does the sums,
and then everything that either way reads and writes is counted at the prices of a model.
"""

import os
from collections.abc import Iterator
from math import ceil
from typing import Any

from treadle.coordination import briefs
from treadle.coordination.capsules import Capsules
from treadle.coordination.hosts import PARAGRAPH
from treadle.coordination.ledger import Ledger, Symbols, change_percent, signed
from treadle.coordination.mcp import SIX
from treadle.coordination.planning import Planning, write_text
from treadle.io.files import read
from treadle.sessions.tokens import estimate
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.heimdall.messages import faults

RULES = ("invariant", "rule", "how we work", "convention", "constraint")
"""Words in the headings of sections that everybody who works on a plan has to read, whatever the task."""
CACHED = 0.9
"""The discount of a provider for the beginning of a prompt that it has just seen."""
WRITTEN = 5
"""The price of a token that a model writes, in tokens that it reads."""
REQUESTS = 20
"""Requests of one agent; each carries its whole prompt again, from the second on at the cached price."""
ROLE = "orchestration"
_HERE = os.path.join(os.path.dirname(__file__), "demo_wave")


def demo(keep: str = "") -> Iterator[str]:
    """The lines to print. With `keep`, everything that was counted is left in that directory."""
    import tempfile

    tasks = wave_given()["tasks"]
    with tempfile.TemporaryDirectory() as scratch:
        planning = Planning(os.path.join(scratch, ".planning"), project=scratch)
        write_text(os.path.join(scratch, "PLAN.md"), _read("plan.md"))
        ledger = Ledger(planning)
        before, after = verbatim(planning), by_reference(planning)
        base = sum(map(estimate, before.values()))
        ledger.baseline(ROLE, base)
        for name, text in after.items():
            ledger.log(ROLE, name.partition(" ")[0], estimate(text), msg_id=name, source="estimated", run="demo")
        (row,) = ledger.delta(ROLE, "demo")
        in_full = list(_in_full(planning, before, after))
    for name, text in (before | after).items() if keep else ():
        write_text(os.path.join(os.path.abspath(keep), name.replace(" ", "-") + ".txt"), text)
    measured = row["measured"]
    yield f"v1 orchestration (briefing {len(before)} spawns, verbatim): {base} tokens (baseline)"
    yield (
        f"v2 orchestration (symbol table + {len(tasks)} delta briefs + {len(tasks)} typed results): {measured} tokens"
    )
    yield f"measured delta: {ROLE}: {base} -> {measured} tokens ({signed(row['percent'])}%)"
    yield f"{ROLE}: {(base + 500) // 1000}k → {measured} tokens, measured."
    yield from in_full
    yield "(all texts were built; their tokens are estimated by one rule, as no model was asked)"


def _in_full(planning: Planning, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Everything that is read and written, both ways, in tokens' worth of reading.

    Verbatim is counted at its cheapest: a program pastes the plan, and the provider has cached it for all spawns but
    the first. By reference, the orchestrator types the commands, each agent types its capsule, and the tools and the
    paragraph of `treadle coord setup` are in every request of the orchestrator and of each agent.
    """
    wave, spawns = wave_given(), len(before)
    restated, standing = estimate(_restated()), estimate(_tools() + PARAGRAPH)
    report = estimate(_read("reports.md")) / len(wave["capsules"])
    own = sum(map(estimate, before.values())) / spawns - restated
    # What one more agent costs; the first pays the plan in full.
    another = _resent(restated) - CACHED * restated + _resent(own) + (WRITTEN + 1) * report
    commands = sum(estimate(_brief_command(task)) for task in wave["tasks"]) / spawns
    capsule = sum(estimate(_capsule_command(one)) for one in wave["capsules"]) / len(wave["capsules"])
    brief = sum(estimate(text) for name, text in after.items() if name.startswith("delta_brief")) / spawns
    result = sum(estimate(text) for name, text in after.items() if name.startswith("task_result")) / spawns
    referring = WRITTEN * (commands + capsule) + _resent(brief + estimate(rules()) + standing) + (WRITTEN + 1) * result
    once = _resent(standing) + WRITTEN * sum(
        estimate(f"heimdall-resolve set {name} '{value}'\n") for name, value in wave["symbols"].items()
    )
    spec = sum(estimate(briefs.spec_at(planning.project, task["spec"])) for task in wave["tasks"]) / spawns
    pasted = round(spawns * another + CACHED * restated)
    yield (
        f"in full, a written token at {WRITTEN} times the price of a read one, {REQUESTS} requests an agent, cached"
        f" prompts at {1 - CACHED:.0%}:"
    )
    yield f"  verbatim, pasted by a program: {pasted} tokens' worth"
    for how, more in (("named as PLAN.md#HEADING", 0.0), ("typed by the orchestrator", WRITTEN * spec)):
        cost = round(once + spawns * (referring + more))
        saved = another - referring - more
        pays = f"pays from task {max(1, ceil((once - CACHED * restated) / saved))} on" if saved > 0 else "never pays"
        yield f"  by reference, specs {how}: {cost} ({signed(change_percent(pasted, cost))}%), {pays}"
    even = (once + spawns * (referring - another + _resent(restated) - CACHED * restated)) / (
        CACHED + spawns * (_resent(1) - CACHED)
    )
    yield f"  where plan and reports have fewer than {round(even)} tokens (here {restated}), verbatim is cheaper"


def _resent(tokens: float) -> float:
    """What a part of a prompt costs that is in every request of one agent."""
    return tokens * (1 + (1 - CACHED) * (REQUESTS - 1))


def _tools() -> str:
    return dumps([{"name": one.name, "description": one.description, "input_schema": one.schema} for one in SIX])


def _brief_command(task: dict[str, Any]) -> str:
    """What the orchestrator types to give out a task: the agent runs it itself."""
    return (
        f"Run this and do what it says: heimdall-brief build --task {task['task']} --spec {task['spec']}"
        f" --symbols {task['symbols']} --capsules {task['capsules']} --invariants PLAN.md#3-invariants\n"
    )


def _capsule_command(capsule: dict[str, str]) -> str:
    options = " ".join(f"--{name} '{value}'" for name, value in capsule.items() if name != "name")
    return f"heimdall-capsule write {capsule['name']} {options}\n"


def rules() -> str:
    """What a brief's `INVARIANTS REF` points to: the plan's invariants and working rules."""
    sections = f"\n{_read('plan.md')}".split("\n## ")[1:]
    return "\n## ".join(part for part in sections if any(word in part.partition("\n")[0].lower() for word in RULES))


def _restated() -> str:
    """The common beginning of every verbatim brief."""
    return f"You are working on this plan.\n\n{_read('plan.md')}\n# What was done so far\n\n{_read('reports.md')}\n"


def verbatim(planning: Planning) -> dict[str, str]:
    """What each spawned agent is told when everything is restated: the plan, what was done before, and the task."""
    return {
        f"verbatim {task['task']}": f"{_restated()}"
        f"# Your task\n\n{briefs.spec_at(planning.project, task['spec'])}\nKeep every invariant of the plan, meet the"
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
            planning, name, task["spec"], task["symbols"], task["capsules"], "PLAN.md#3-invariants"
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
