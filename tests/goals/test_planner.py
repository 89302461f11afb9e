"""A planner's plan is read exactly, checked, and asked for again; it cannot write."""

from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.conftest import Start
from tests.fleet.repositories import git
from treadle.errors import LocalError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.goals import planner
from treadle.goals.planner import merged_orders
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, faults, read
from treadle.wire.goal.verdicts import PlanDraft, PlanPart

GOOD = '{"done": "true", "verify": "true", "orders": [{"id": "one", "task": "Do it.", "claims": ["a.txt"]}]}'
CIRCLE = GOOD.replace('"task"', '"after": ["one"], "task"')


def script(place: Path, *replies: str) -> str:
    call = "[[reply]]\ntext = 'x'\n[[reply.call]]\nname = 'bash'\narguments = { command = 'echo x > a.txt' }\n"
    texts = "".join(f"[[reply]]\ntext = '''{each}'''\nusage = {{ input = 100, output = 1 }}\n" for each in replies)
    path = place / "planner.toml"
    path.write_text(call + texts)
    return f"scripted:{path}"


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


async def test_a_planner_that_only_talks_is_given_up_with_the_reason(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    with pytest.raises(LocalError, match="does not end with a JSON object"):
        await planner.plan(bus, "g", str(repository), model=script(tmp_path, "I would rather not.", "No.", "No."))


def gives(when: str, **answer: object) -> dict[str, object]:
    """A model's reply that calls the tool."""
    call = [{"name": "give_answer", "arguments": answer}]
    return {"when": when, "times": "always", "text": "Here it is.", "call": call, "usage": {"input": 100, "output": 1}}


async def test_a_large_goal_is_planned_in_parts_by_planners_of_their_own_and_each_gives_its_plan_by_a_tool(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    one = {"id": "one", "task": "First.", "claims": ["one.txt"]}
    parts = [{"id": "shop", "goal": "The shop's half."}, {"id": "web", "goal": "The page's half.", "after": ["shop"]}]
    replies = [
        gives("orders.1..after: there is no order", done="true", orders=[one, {**one, "id": "two", "after": ["one"]}]),
        {"when": "Accepted", "times": "always", "text": "That is the plan."},
        gives("only the part shop", done="true", orders=[one, {**one, "id": "two", "after": ["oen"]}]),
        gives("only the part web", done="true", orders=[one]),
        gives("Only for a goal", done="true", verify="true", parts=parts),
    ]
    (tmp_path / "planner.toml").write_text(tomlkit.dumps({"reply": replies}))
    await start_node(slots=2)
    model = f"scripted:{tmp_path / 'planner.toml'}"
    made = await planner.plan(bus, "Do it all", str(repository), model=model, budget=GoalBudget(hours=1))
    plan, mistakes = read(made.text)
    assert plan is not None and not mistakes and made.tries == 1
    found = {order.id: order.after for order in plan.order}
    assert found == {"shop-one": (), "shop-two": ("shop-one",), "web-one": ("shop-two",)}
    assert len(made.parts) == 2 and made.used.tokens > 300
    drafts = [(await client.get_order(bus, name)).result["answer"] for name in (made.order, *made.parts)]
    assert drafts[0]["parts"] == parts and sorted(len(each.get("orders", ())) for each in drafts) == [0, 1, 2]


@given(st.lists(st.integers(0, 4), min_size=2, max_size=6), st.data())
def test_the_orders_of_all_parts_are_one_plan_in_which_parts_keep_what_they_come_after(
    sizes: list[int], data: st.DataObject
) -> None:
    parts, drafts = [], {}
    for number, size in enumerate(sizes):
        earlier = [f"p{each}" for each in range(number) if sizes[each]]
        after = data.draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        parts.append(PlanPart(id=f"p{number}", goal="g", after=tuple(after)))
        chains = [(f"o{data.draw(st.integers(0, each - 1))}",) if each else () for each in range(size)]
        orders = tuple(PlannedOrder(id=f"o{each}", task="t", after=chain) for each, chain in enumerate(chains))
        drafts[f"p{number}"] = PlanDraft(done="true", orders=orders)
    merged = {order.id: order for order in merged_orders(parts, drafts)}
    assert len(merged) == sum(sizes)
    if merged:
        assert not [*faults(GoalPlan(goal="g", done="true", order=tuple(merged.values())))]

    def before(name: str) -> set[str]:
        return {name}.union(*(before(each) for each in merged[name].after))

    for part in parts:
        for order in drafts[part.id].orders:
            needs = {f"{other}-{each.id}" for other in part.after for each in drafts[other].orders}
            assert needs <= before(f"{part.id}-{order.id}"), "all of it has landed"


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
    whole, part = await made.planner(""), await made.planner("Plan only the part shop: x\n", "shop")
    specs = [await client.get_spec(bus, each.order) for each in (whole, part)]
    assert [each.title for each in specs] == ["plan: Do it", "plan shop: Do it"] and (whole.apart, part.apart) == (
        False,
        True,
    )
    assert [(each.agent, each.model, each.answer, each.root) for each in specs] == [
        ("codex", "gpt-5", "plan", str(repository))
    ] * 2
    assert "proves the goal on the branch" in specs[0].task and "Only for a goal" in specs[0].task
    assert "proves this part on the branch" in specs[1].task and "Only for a goal" not in specs[1].task
    assert specs[0].base == git(repository, "rev-parse", "HEAD") and specs[0].by == client.me()
    budgetless = await planner.GoalPlanning.of(bus, "g", str(repository), "native", "", None, "")
    assert await budgetless.problems(draft) == "" and budgetless.source == ""
