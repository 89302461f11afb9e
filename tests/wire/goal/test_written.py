"""A plan that is written is read as it was, and laid out as a person would."""

from hypothesis import example, given
from hypothesis import strategies as st

from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, read, to_toml

lines = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30)
ids = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)


@st.composite
def plans(draw: st.DrawFn) -> GoalPlan:
    names = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    orders = []
    for number, name in enumerate(names):
        orders.append(
            PlannedOrder(
                id=name,
                task="do " + draw(lines),
                title=draw(lines),
                after=tuple(sorted(draw(st.sets(st.sampled_from(names[:number]))) if number else ())),
                claims=tuple(f"x{each}" for each in draw(st.lists(lines, max_size=2))),
                accept=tuple(f"x{each}" for each in draw(st.lists(lines, max_size=2))),
                land=True,
            )
        )
    budget = draw(st.none() | st.builds(GoalBudget, usd=st.floats(0.01, 1e6), orders=st.integers(1, 99)))
    roles = draw(st.dictionaries(st.sampled_from(["worker", "judge"]), lines))
    return GoalPlan(goal="x" + draw(lines), done="x" + draw(lines), order=tuple(orders), budget=budget, roles=roles)


TASKS_OF_LINES = GoalPlan(
    goal="g",
    done="d",
    order=tuple(PlannedOrder(id=f"o{n}", task=task) for n, task in enumerate(("x\ny", "\nx\n", "x\n\ny", "x\n"))),
)


@example(TASKS_OF_LINES)
@given(plans())
def test_a_plan_that_is_written_is_read_as_it_was(plan: GoalPlan) -> None:
    assert read(to_toml(plan), budget_required=False) == (plan, [])


def test_a_plan_is_laid_out_as_a_person_would() -> None:
    task = "two\nlines"
    orders = (PlannedOrder(id="a", task=task), PlannedOrder(id="b", task='with "quotes"\nand lines'))
    plan = GoalPlan(goal="g", order=orders, budget=GoalBudget(orders=3), roles={"worker": "codex"})
    assert to_toml(plan).splitlines() == [
        'goal = "g"',
        "budget = {orders = 3}",
        'roles = {worker = "codex"}',
        "",
        "[[order]]",
        'id = "a"',
        'task = """two',
        'lines"""',
        "",
        "[[order]]",
        'id = "b"',
        'task = "with \\"quotes\\"\\nand lines"',
    ]
