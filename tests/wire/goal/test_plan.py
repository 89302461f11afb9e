"""A plan is read whole, or every mistake in it is named with its line."""

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, lines_of, read

ORDER = PlannedOrder(id="a", task="do it")


def test_a_plan_stops_at_the_gate_plan_unless_it_says_otherwise() -> None:
    assert GoalPlan(goal="g", order=(ORDER,)).gated == ("plan",)
    assert GoalPlan(goal="g", order=(ORDER,), gates=("none",)).gated == ("none",)


def test_a_plan_that_came_from_outside_always_stops_at_the_gate_plan() -> None:
    assert GoalPlan(goal="g", order=(ORDER,), gates=("none",), source="ISSUE.md").gated == ("plan",)
    assert GoalPlan(goal="g", order=(ORDER,), gates=("wave", "plan"), source="ISSUE.md").gated == ("plan", "wave")


def test_an_order_of_a_plan_lands_and_its_acceptance_fails_before_the_work_unless_it_says_otherwise() -> None:
    assert ORDER.land and not ORDER.already


PLAN = """goal = "Orders can be exported"
done = "make test"
budget = { usd = 20, hours = 3 }
roles = { worker = "native", reviewer = "codex" }
[[order]]
id = "model"
task = "A type for a row."
claims = ["shop/rows.py"]
accept = ["pytest -q tests/test_rows.py"]
[[order]]
id = "writer"
task = "Write rows."
after = ["model"]
size = "l"
"""


def mistakes(text: str, **options: bool) -> list[tuple[int, str, str]]:
    return [(each.line, each.place, each.what) for each in read(text, **options)[1]]


def test_a_plan_is_read_with_its_defaults() -> None:
    plan, wrong = read(PLAN)
    assert plan is not None and wrong == []
    assert plan.budget == GoalBudget(usd=20, hours=3) and plan.branch == "main" and plan.gates == ("plan",)
    model, writer = plan.order
    assert model.size == "m" and model.land and writer.after == ("model",) and writer.size == "l"


def test_an_unknown_field_is_named_with_its_line_and_the_nearest_known_one() -> None:
    plan, (wrong,) = read(PLAN.replace("claims =", "claim ="))
    assert plan is None and (wrong.line, wrong.place) == (8, "order[0].claim") and wrong.hint == "did you mean claims?"


@pytest.mark.parametrize(
    ("change", "line", "place"),
    [
        (('"A type for a row."', "3"), 7, "order[0].task"),
        (('["shop/rows.py"]', '"shop/rows.py"'), 8, "order[0].claims"),
        (('["shop/rows.py"]', '["a", 2]'), 8, "order[0].claims[1]"),
        (('"l"', '"l"\nwave = true'), 15, "order[1].wave"),
        (("usd = 20", 'usd = "20"'), 3, "budget.usd"),
        (("usd = 20", "usd = nan"), 3, "budget.usd"),
        (("usd = 20", "money = 20"), 3, "budget.money"),
        (('after = ["model"]', 'after = ["modle"]'), 13, "order[1].after"),
        (('done = "make test"', 'done = "x"\ngates = ["plan", "door"]'), 3, "gates[1]"),
        (('accept = ["pytest -q tests/test_rows.py"]', 'accept = [""]'), 9, "order[0].accept[0]"),
    ],
)
def test_each_mistake_has_its_line_and_place(change: tuple[str, str], line: int, place: str) -> None:
    assert [each[:2] for each in mistakes(PLAN.replace(*change))] == [(line, place)]


def test_mistakes_of_every_kind_are_found_at_once() -> None:
    text = PLAN.replace("claims =", "claim =").replace('["model"]', '["modle"]').replace('"l"', "3")
    assert [each[:2] for each in mistakes(text)] == [
        (8, "order[0].claim"),
        (13, "order[1].after"),
        (14, "order[1].size"),
    ]


def test_what_is_wrong_in_shape_hides_no_mistake_elsewhere() -> None:
    text = PLAN.replace('goal = "Orders can be exported"', "goal = 3").replace(
        "usd = 20, hours = 3", "usd = [], hours = 0"
    )
    text = (
        text.replace('id = "model"', "").replace('task = "A type for a row."', 'task = ""').replace('"writer"', '"W"')
    )
    assert [each[1] for each in mistakes(text)] == [
        "goal",
        "budget.hours",
        "budget.usd",
        "order[0].id",
        "order[0].task",
        "order[1].id",
    ]
    many = PLAN + '[[order]]\nid = "x"\ntask = ""\n' * 9 + '[[order]]\nid = "y"\ntask = ""\nsize = 1\n'
    assert "order[11].task" in [each[1] for each in mistakes(many.replace('"A type for a row."', "3"))]


def test_a_plan_without_orders_is_told_so_once() -> None:
    head = PLAN.partition("[[order]]")[0]
    assert [each[1:] for each in mistakes(head)] == [("order", "order is missing")]
    assert [each[1:] for each in mistakes(head + "order = []\n")] == [("order", "the plan has no orders")]


def test_what_is_missing_is_said_where_it_belongs() -> None:
    assert [each[1:] for each in mistakes("")] == [
        ("budget", "there is no budget"),
        ("done", "done is missing: nothing proves that the goal is met"),
        ("goal", "goal is missing"),
        ("order", "order is missing"),
    ]
    assert mistakes(PLAN.replace('id = "writer"\n', "")) == [(10, "order[1].id", "id is missing")]
    without = PLAN.replace("budget = { usd = 20, hours = 3 }\n", "")
    assert mistakes(without) == [(1, "budget", "there is no budget")] and mistakes(without, budget_required=False) == []


def test_an_id_stands_for_one_order() -> None:
    text = PLAN.replace('id = "writer"', 'id = "model"').replace('after = ["model"]\n', "")
    assert mistakes(text) == [(11, "order[1].id", "the id 'model' is used by order 1 already")]


def test_orders_that_wait_for_each_other_are_named_in_their_circle() -> None:
    text = PLAN.replace('accept = ["', 'after = ["writer"]\naccept = ["')
    ((line, place, what),) = mistakes(text)
    assert (line, place, what) == (9, "order[0].after", "these wait for each other: model -> writer -> model")


def test_text_that_is_no_toml_is_one_mistake_with_its_line() -> None:
    assert [each[0] for each in mistakes('goal = "x"\ndone = = "y"\n')] == [2]
    assert [each[0] for each in mistakes('goal = """x')] == [1]
    assert len(mistakes("a = " + "[" * 100_000)) == 1


def test_a_newer_format_is_refused_without_a_guess_about_its_fields() -> None:
    assert mistakes("format = 2\nplans = 3\n") == [(1, "format", "format 2 is newer than this version reads")]


@given(st.text(max_size=200) | st.text("goalrdeidtask=[]{}\"'\n.1# ", max_size=200))
def test_any_text_gives_a_plan_or_mistakes_on_its_lines(text: str) -> None:
    plan, wrong = read(text)
    assert plan is not None or wrong
    assert all(1 <= each.line <= text.count("\n") + 1 for each in wrong)


def told(text: str, **more: bool) -> list[tuple[int, str, str, str]]:
    return [(each.line, each.place, each.what, each.hint) for each in read(text, **more)[1]]


TASK, BUDGET = 'task = "t"', "budget = {usd = 1}"

PLAIN = 'goal = "g"\ndone = "true"\nbudget = {usd = 1}\n[[order]]\nid = "a"\ntask = "t"\n'


@pytest.mark.parametrize(
    ("changed", "line", "place", "what", "hint"),
    [
        (("usd = 1", "usd = 0"), 3, "budget.usd", "0 is no limit", "more than 0"),
        (("usd = 1", "usd = inf"), 3, "budget.usd", "inf is no limit", ""),
        (("usd = 1", "usd = true"), 3, "budget.usd", "this must be a number, not true or false", ""),
        (('goal = "g"', 'goal = " "'), 1, "goal", "the goal is empty", "in a sentence"),
        (('task = "t"', 'task = " "'), 6, "order[0].task", "the task is empty", "say what"),
        ((TASK, TASK + "\nwave = -1"), 7, "order[0].wave", "there is no wave -1", "the first wave is 1"),
        ((TASK, TASK + '\nclaims = ["a", " "]'), 7, "order[0].claims[1]", "this is empty", ""),
        ((TASK, TASK + '\naccept = ["x"]\nland = false'), 7, "order[0].accept", "does not land", "remove accept"),
        ((TASK, TASK + '\nafter = ["a"]'), 7, "order[0].after", "a names itself", ""),
        ((TASK, TASK + '\ndiscovered_from = "b"'), 7, "order[0].discovered_from", "no order 'b'", "known are a"),
        ((TASK, TASK + '\nsize = "xl"'), 7, "order[0].size", "'xl' is none of s, m, l", ""),
        ((TASK, TASK + "\nland = 1"), 7, "order[0].land", "true or false, not a whole number", ""),
        ((TASK, TASK + '\nafter = "b"'), 7, "order[0].after", "must be a list, not text", "in brackets"),
        (('id = "a"', 'id = "A"'), 5, "order[0].id", "'A' is no id", "1 to 40"),
        (('id = "a"\n', ""), 4, "order[0].id", "id is missing", "every order has one"),
        (('goal = "g"\n', ""), 1, "goal", "goal is missing", "every plan has one"),
        (('done = "true"', 'done = ""'), 2, "done", "nothing proves", "make test"),
        ((BUDGET, BUDGET + '\ngates = ["none", "plan"]'), 4, "gates", "none stands beside", "no one is asked"),
        ((BUDGET, BUDGET + '\ngates = ["agent:boss"]'), 4, "gates[0]", "'boss' is no role", "roles are"),
        ((BUDGET, BUDGET + '\ngates = ["dream"]'), 4, "gates[0]", "no gate 'dream'", "agent:ROLE"),
        ((BUDGET, BUDGET + '\nroles = {boss = "x"}'), 4, "roles.boss", "no role 'boss'", "roles are"),
        ((BUDGET, BUDGET + "\nroles = {worker = 1}"), 4, "roles", "a table of texts", "as in roles"),
        ((BUDGET, BUDGET + "\nbranch = 2026-01-01"), 4, "branch", "not a date or time", ""),
        ((BUDGET, BUDGET + "\nformat = 2"), 4, "format", "format 2 is newer", "upgrade"),
        ((BUDGET, BUDGET + '\nbrunch = "x"'), 4, "brunch", "there is no field 'brunch'", "did you mean branch?"),
    ],
)
def test_each_mistake_has_its_line_its_place_and_what_to_do(
    changed: tuple[str, str], line: int, place: str, what: str, hint: str
) -> None:
    assert changed[0] in PLAIN
    found = told(PLAIN.replace(*changed))
    assert [(each[0], each[1]) for each in found] == [(line, place)], found
    assert what in found[0][2] and hint in found[0][3]


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


TEXT = '''goal = "a # b [[order]]"
budget = {
  usd = 1,
}
[roles]
worker = "x"
[[order]]
id = "a"
task = """
id = "not a key"
[[order]]
"""
claims = [
  "x", # ] a comment
  "y",
]
on_red = "author"
[[ order ]]
"id" = 'b'
'''


def test_tables_and_keys_are_found_by_their_path_and_texts_are_not() -> None:
    assert lines_of(TEXT) == {
        "goal": 1,
        "budget": 2,
        "roles": 5,
        "roles.worker": 6,
        "order[0]": 7,
        "order[0].id": 8,
        "order[0].task": 9,
        "order[0].claims": 13,
        "order[0].on_red": 17,
        "order[1]": 18,
        "order[1].id": 19,
    }


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
