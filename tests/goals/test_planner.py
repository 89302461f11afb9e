"""A planner's plan is read exactly, checked, and asked for again; it cannot write."""

from pathlib import Path

import pytest

from tests.fleet.conftest import Start
from tests.fleet.repositories import git
from treadle.errors import LocalError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.goals import planner
from treadle.wire.goal.plan import GoalBudget, PlannedOrder, read
from treadle.wire.goal.verdicts import PlanDraft

GOOD = '{"done": "true", "verify": "true", "orders": [{"id": "one", "task": "Do it.", "claims": ["a.txt"]}]}'
CIRCLE = GOOD.replace('"task"', '"after": ["one"], "task"')


def script(place: Path, *replies: str) -> str:
    call = "[[reply]]\ntext = 'x'\n[[reply.call]]\nname = 'bash'\narguments = { command = 'echo x > a.txt' }\n"
    texts = "".join(f"[[reply]]\ntext = '''{each}'''\nusage = {{ input = 100, output = 1 }}\n" for each in replies)
    path = place / "planner.toml"
    path.write_text(call + texts)
    return f"scripted:{path}"


@pytest.mark.slow
async def test_mistakes_go_back_to_the_planner_and_what_it_then_gives_is_a_plan(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    # A new process plays a script from its start, so the second answer is chosen by what it is told.
    model = script(tmp_path, CIRCLE)
    path = Path(model.partition(":")[2])
    path.write_text(f"[[reply]]\nwhen = 'names itself'\ntext = '''{GOOD}'''\n" + path.read_text())
    made = await planner.plan(
        bus, "Do it\nall of it", str(repository), model=model, budget=GoalBudget(hours=1), source="issue.md"
    )
    plan, mistakes = read(made.text)
    assert plan is not None and not mistakes and made.tries == 2
    assert (plan.goal, plan.branch, plan.gated, plan.order[0].claims) == ("Do it", "main", ("plan",), ("a.txt",))
    order = await client.get_order(bus, (await client.get_order(bus, made.order)).id)
    assert not order.result.get("commit"), "it wrote nothing"
    assert git(repository, "show", "main:a.txt") == "one"


@pytest.mark.slow
async def test_a_planner_that_only_talks_is_given_up_with_the_reason(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    with pytest.raises(LocalError, match="does not end with a JSON object"):
        await planner.plan(bus, "g", str(repository), model=script(tmp_path, "I would rather not.", "No.", "No."))


async def test_a_plan_is_written_for_the_branch_that_is_checked_out_and_what_is_wrong_with_it_is_told(
    bus: Bus, repository: Path
) -> None:
    git(repository, "checkout", "-q", "-b", "next")
    made = await planner.GoalPlanning.of(
        bus, "\n Do it\nall of it ", str(repository), "codex", "gpt-5", GoalBudget(hours=1), "issue.md"
    )
    order = PlannedOrder(id="one", task="t", agent="claude", model="x", discovered_from="y", claims=("a.txt",))
    draft = PlanDraft(done="true", verify="make", orders=(order,))
    plan, mistakes = read(made.text(draft))
    assert plan is not None and not mistakes and await made.problems(draft) == ""
    assert (plan.goal, plan.done, plan.verify, plan.branch, plan.source) == (
        "Do it",
        "true",
        "make",
        "next",
        "issue.md",
    )
    (kept,) = plan.order
    assert (kept.agent, kept.model, kept.discovered_from, kept.claims) == ("", "", "", ("a.txt",))
    lost = PlanDraft(done="true", orders=(PlannedOrder(id="one", task="t", after=("two",)),), invariants="NONE.md")
    assert "order[0].after" in await made.problems(lost)
    spec = await client.get_spec(bus, (await made.planner()).order)
    assert (spec.title, spec.agent, spec.model, spec.answer) == ("plan: Do it", "codex", "gpt-5", "plan")
    assert spec.root == str(repository) and "proves the goal on the branch" in spec.task
    assert spec.base == git(repository, "rev-parse", "HEAD") and spec.by == client.me()
    budgetless = await planner.GoalPlanning.of(bus, "g", str(repository), "native", "", None, "")
    assert await budgetless.problems(draft) == "" and budgetless.source == ""
