"""The orders that a goal gives to a fleet: what each agent is told, and within which limits it works. Pure but for the
repository's own records, which are read.

A worker gets a delta brief. What its whole wave needs comes first, in the same bytes for each; its own task, what its
acceptance is and what others found out come last. A reviewer and a judge look without writing, and give a typed answer.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from treadle.coordination.briefs import WaveTask, lay_out
from treadle.coordination.ledger import Blackboard
from treadle.coordination.planning import Planning
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import PERSON
from treadle.goals import deciding
from treadle.goals.deciding import GoalSeen, role_of
from treadle.goals.waves import waves
from treadle.wire.fleet.orders import OrderLimits, OrderPolicy, Spec
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import GoalRecord, GoalStep
from treadle.wire.goal.verdicts import TOOL

# The budget of a goal, as the fleet holds its orders to it.


async def tell(bus: Bus, name: str, plan: GoalPlan, raised: int) -> None:
    """Tell the fleet what all orders of the goal may use together."""
    usd, tokens = deciding.allowance(plan, raised)
    if usd is not None or tokens is not None:
        await client.set_budget(bus, f"project:{name}", usd=usd, tokens=tokens, by="goal")


WEIGHTS = {"s": 1, "m": 2, "l": 4}
MARGIN = 1.5
"""An order may use so many times its share of the budget."""
DIFF_MAX = 60_000
FOUND_MAX = 2000
WORK_SECONDS = 4 * 3600.0
LOOK_SECONDS = 1800.0
"""How long an agent that works and one that only looks may take at most, also where the budget has no hours."""
QUESTION_SECONDS = 86_400.0
LOOKS = OrderPolicy(deny_write=("**",))
"""For our own agent, which can be held to it. Others look in a copy of their own, of which nothing is kept."""


def work(record: GoalRecord, plan: GoalPlan, name: str, base: str, seen: GoalSeen, found: Mapping[str, str]) -> Spec:
    """The order that begins on a step. `found` is what earlier orders answered that do not land."""
    planned = next(each for each in plan.order if each.id == name)
    agent, model = (planned.agent, planned.model) if planned.agent else role_of(plan, "worker")
    checks = [*planned.accept, planned.verify or plan.verify]
    return Spec(
        id=record.steps[name].order,
        title=planned.title or planned.task.strip().splitlines()[0][:100],
        task=_brief(record, plan, planned, found),
        agent=agent or "native",
        model=planned.model or model or None,
        mode=plan.mode or None,
        root=record.root,
        base=base,
        after=tuple(order for each in planned.after if (order := record.steps[each].order)),
        claims=planned.claims,
        verify=" && ".join(f"( {each}\n)" for each in checks if each),
        setup=plan.setup,
        on_red=planned.on_red,
        fallback=plan.fallback,
        **_common(record),
        limits=limits(record, plan, planned.size, seen, WORK_SECONDS),
    )


def _common(record: GoalRecord) -> dict[str, Any]:
    common = {"project": record.id, "by": f"goal {record.id}", "created": time.time(), "retry_on": ("provider",)}
    return {**common, "shares": True}


def _brief(record: GoalRecord, plan: GoalPlan, planned: PlannedOrder, found: Mapping[str, str]) -> str:
    shared, own = parts(record.root, plan, planned)
    more = [own.rstrip()]
    more += [f"What {name} found out:\n{text[:FOUND_MAX]}" for name, text in found.items()]
    more += filter(None, [facts(record.root)])
    if planned.accept:
        more.append("It is accepted when each of these passes:\n" + "\n".join(f"  {each}" for each in planned.accept))
    step = record.steps[planned.id]
    if step.comments:
        more.append(f"An earlier try ({', '.join(step.orders[:-1])}) did not land: {step.comments}")
    more += [f"A person adds: {text}" for text in record.comments]
    return shared + "\n\n".join(more) + "\n"


def parts(root: str, plan: GoalPlan, planned: PlannedOrder) -> tuple[str, str]:
    """The beginning that all briefs of the order's wave share, and its own task."""
    found, _ = waves(plan)
    wave = next(each for each in found if planned.id in each.orders)
    orders = [order for order in plan.order if order.id in wave.orders]
    tasks = [WaveTask(order.id, order.task, ",".join(order.symbols)) for order in orders]
    laid = lay_out(Planning(project=root), tasks, plan.invariants)
    return f"{laid.shared}GOAL: {plan.goal}\n\n", laid.own[planned.id]


def limits(record: GoalRecord, plan: GoalPlan, weight: str, seen: GoalSeen, seconds: float) -> OrderLimits:
    """Its share of the budget by its size, and at most so long."""
    budget, times = plan.budget, 1 + record.raised
    if budget is None:
        return OrderLimits(seconds=seconds)
    share = MARGIN * WEIGHTS[weight] / max(1, sum(WEIGHTS[each.size] for each in plan.order))
    tokens = usd = None
    if budget.tokens is not None:
        tokens = max(1, int(share * budget.tokens))
    if budget.usd is not None:
        usd = share * budget.usd
    if budget.hours is not None:
        spent = seen.now - record.began - record.rested
        seconds = min(seconds, max(60.0, budget.hours * times * 3600 - spent))
    return OrderLimits(tokens=tokens, usd=usd, seconds=seconds)


def question(record: GoalRecord, order: str, title: str, text: str) -> Spec:
    return Spec(
        id=order,
        title=title[:300],
        task=text,
        agent=PERSON,
        answer_seconds=QUESTION_SECONDS,
        root=record.root,
        **_common(record),
    )


ANSWER = f"""Give your answer with the tool `{TOOL}`. Where you have no such tool, end your last message with one JSON
object of the same form, and nothing after it:"""

REVIEW = """You review another agent's work before it lands. Look at it with fresh eyes; change nothing.

What was wanted ({name}):
{task}

It is accepted when each of these passes, and they do:
{accept}

The change, also `git diff {base} HEAD`:
{diff}

Approve it if it does what was wanted, does nothing else, and you would answer for it. Otherwise say what must change.
{answer}
{{"verdict": "approve" or "changes", "comments": [{{"path": "FILE", "line": NUMBER IN THE NEW FILE, "text": "..."}}]}}
With changes you may add tests that the work must pass, which its author may not change:
"tests": [{{"path": "tests/test_NAME.py", "text": "THE WHOLE FILE", "command": "COMMAND THAT RUNS IT"}}]
"""


CHECKED_BY = """
It changes what it is checked by: {files}. All that it changes there:
{diff}

Where each of these changes is right, and no test says less than before, name the files: "judge": ["FILE"]. A person is
asked about those that you do not name.
"""


def review(
    record: GoalRecord,
    plan: GoalPlan,
    name: str,
    commit: str,
    base: str,
    diff: str,
    seen: GoalSeen,
    judge: Sequence[str] = (),
    checks: str = "",
) -> Spec:
    """`judge`: the files of its check that it changes, `checks`: how."""
    planned = next(each for each in plan.order if each.id == name)
    cut = diff if len(diff) <= DIFF_MAX else diff[:DIFF_MAX] + "\n... (the rest with the command above)"
    accept = "\n".join(f"  {each}" for each in planned.accept) or "  (no commands)"
    # What is too long to be shown whole is a person's: its end may hide what no one looks at.
    more = CHECKED_BY.format(files=", ".join(judge), diff=checks) if judge and len(checks) <= DIFF_MAX else ""
    return Spec(
        id=record.steps[name].review,
        title=f"review of {name}",
        task=REVIEW.format(name=name, task=planned.task.strip(), accept=accept, base=base, diff=cut, answer=ANSWER)
        + more,
        **_looking(record, plan, "reviewer"),
        answer="review",
        base=commit,
        limits=limits(record, plan, "s", seen, LOOK_SECONDS),
    )


def shows_judge(review: Spec) -> bool:
    """Whether its reviewer was shown all that the work changes of its check, and so can agree to it."""
    return review.task.endswith(CHECKED_BY.rpartition("}")[2])


def _looking(record: GoalRecord, plan: GoalPlan, role: str) -> dict[str, Any]:
    return {**_common(record), **looking(*role_of(plan, role), plan.fallback), "root": record.root}


def default_agent() -> str:
    """The agent of the settings, for roles that name none."""
    from treadle.settings import config

    return config.load(".").settings.agent or "native"


def looking(agent: str, model: str, fallback: Sequence[str]) -> dict[str, Any]:
    """An order that only looks: in a confined copy whose changes are never taken, and unable to write where that can be
    kept. Not checked: a verdict on red work is no claim that it is green."""
    agent = agent or "native"
    policy = LOOKS if {agent, *fallback} == {"native"} else OrderPolicy()
    how = {"mode": "full-auto", "policy": policy, "no_verify": True}
    return {"agent": agent, "model": model or None, "fallback": tuple(fallback), **how}


JUDGE = """You judge whether a goal is met, on the branch as it is now; change nothing.

The goal: {goal}

`{done}` {verdict} there:
{output}

What was done:
{steps}

Read what you need of the repository. If the goal is met, say so. If not, say which orders are still needed, each small
enough for one agent, with acceptance commands that fail now. {answer}
{{"met": true or false, "why": "one sentence", "orders": [{{"id": "short-name", "task": "...", "claims": ["FILE"],
"accept": ["COMMAND"], "after": [], "discovered_from": "ID OF THE ORDER THAT SHOWED IT, OR NOTHING"}}]}}
"""


def judge(record: GoalRecord, plan: GoalPlan, seen: GoalSeen) -> Spec:
    assert record.done is not None
    steps = "\n".join(f"- {name}: {outcome_of(step)}" for name, step in record.steps.items())
    return Spec(
        id=record.judge,
        title="is the goal met?",
        task=JUDGE.format(
            goal=plan.goal,
            done=plan.done,
            verdict="passes" if record.done.ok else "fails",
            output=record.done.output or "(no output)",
            steps=steps,
            answer=ANSWER,
        ),
        **_looking(record, plan, "judge"),
        answer="judgement",
        base=record.done.tip,
        limits=limits(record, plan, "s", seen, LOOK_SECONDS),
    )


def facts(root: str) -> str:
    """The facts that the repository keeps, for a brief."""
    planning = Planning(project=root)
    known = Blackboard(planning).known() if os.path.isdir(planning.root) else {}
    rows = [f"  {key} = {value[:FACT_MAX]}" for key, value in known.items()]
    more = [f"  ... and {len(rows) - FACTS_MAX} more, by `heimdall-blackboard list`"] if len(rows) > FACTS_MAX else []
    return "\n".join(["Known facts of this repository:", *rows[:FACTS_MAX], *more]) if rows else ""


FACTS_MAX, FACT_MAX = 40, 200
"""Facts in a brief, and characters of each, at most."""


def outcome_of(step: GoalStep) -> str:
    """What became of an order, in a few words."""
    if step.state == "landed":
        return f"landed as {step.commit[:10]}"
    return f"{step.state}{f' ({step.why})' if step.why else ''}"


def comments(step: GoalStep, more: Sequence[str]) -> str:
    tests = [
        f"Your reviewer adds this test, which must pass. Write it to {each.path} as it is:\n\n{each.text}"
        for each in step.tests
    ]
    return "\n\n".join(filter(None, [step.comments, *more, *tests])) or "try again"


def verified(spec: Spec, step: GoalStep) -> str:
    """The checks of an order that continues another: those of before, and its reviewer's tests."""
    added = [f"( {each.command}\n)" for each in step.tests if each.command]
    return " && ".join([*filter(None, [spec.verify]), *(each for each in added if each not in spec.verify)])
