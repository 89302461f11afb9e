"""A plan is read whole, or every mistake in it is named with its line."""

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.goal.plan import GoalPlan, PlannedOrder, lines_of, read

ORDER = PlannedOrder(id="a", task="do it")


def test_a_plan_that_came_from_outside_always_stops_at_the_gate_plan() -> None:
    assert GoalPlan(goal="g", order=(ORDER,), gates=("none",), source="ISSUE.md").gated == ("plan",)
    assert GoalPlan(goal="g", order=(ORDER,), gates=("wave", "plan"), source="ISSUE.md").gated == ("plan", "wave")


def mistakes(text: str, **options: bool) -> list[tuple[int, str, str]]:
    return [(each.line, each.place, each.what) for each in read(text, **options)[1]]


def test_text_that_is_no_toml_is_one_mistake_with_its_line() -> None:
    assert [each[0] for each in mistakes('goal = "x"\ndone = = "y"\n')] == [2]
    assert [each[0] for each in mistakes('goal = """x')] == [1]
    assert len(mistakes("a = " + "[" * 100_000)) == 1


@given(st.text(max_size=200) | st.text("goalrdeidtask=[]{}\"'\n.1# ", max_size=200))
def test_any_text_gives_a_plan_or_mistakes_on_its_lines(text: str) -> None:
    plan, wrong = read(text)
    assert plan is not None or wrong
    assert all(1 <= each.line <= text.count("\n") + 1 for each in wrong)


def told(text: str, **more: bool) -> list[tuple[int, str, str, str]]:
    return [(each.line, each.place, each.what, each.hint) for each in read(text, **more)[1]]


PLAIN = 'goal = "g"\ndone = "true"\nbudget = {usd = 1}\n[[order]]\nid = "a"\ntask = "t"\n'


def test_a_plan_of_at_most_1000_orders_without_mistakes_is_read() -> None:
    plan, none = read(PLAIN)
    assert plan is not None and none == [] and plan.budget is not None and plan.budget.usd == 1
    for gate in ("agent:reviewer", "wave", "none"):
        assert told(PLAIN.replace("[[order]]", f'gates = ["{gate}"]\n[[order]]')) == []
    whole = PLAIN.replace("usd = 1", "usd = 1.5, tokens = 2")
    assert told(whole) == [] and "whole number" in told(whole.replace("tokens = 2", "tokens = 2.5"))[0][2]
    many = 'goal = "g"\ndone = "x"\n' + "".join(f'[[order]]\nid = "o{number}"\ntask = "t"\n' for number in range(1001))
    assert [each[1:] for each in told(many, budget_required=False)] == [
        ("order", "1001 orders are more than 1000", "split the goal")
    ]
    assert told(many.rsplit("[[order]]", 1)[0], budget_required=False) == []


texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\x7f", exclude_categories=("Cs", "Cc")) | st.just("\n")
)


@given(st.lists(st.tuples(texts, st.lists(texts, max_size=3)), min_size=1, max_size=5))
def test_whatever_the_texts_are_each_key_is_on_its_line(orders: list[tuple[str, list[str]]]) -> None:
    document = tomlkit.document()
    tables = tomlkit.aot()
    for task, claims in orders:
        table = tomlkit.table()
        table.add("task", tomlkit.string(task, multiline=True) if '"' not in task and "\\" not in task else task)
        table.add("claims", claims)
        tables.append(table)
    document.add("order", tables)
    lines = tomlkit.dumps(document).split("\n")
    found = lines_of("\n".join(lines))
    assert len(found) == 3 * len(orders)
    for number in range(len(orders)):
        assert lines[found[f"order[{number}]"] - 1] == "[[order]]"
        assert lines[found[f"order[{number}].task"] - 1].startswith("task = ")
        assert lines[found[f"order[{number}].claims"] - 1].startswith("claims = ")
