"""A plan is read whole, or every mistake in it is named with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.goal.plan import GoalBudget, read

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
        (('size = "l"', 'size = "xl"'), 14, "order[1].size"),
        (('"l"', '"l"\nland = 1'), 15, "order[1].land"),
        (('"l"', '"l"\nwave = true'), 15, "order[1].wave"),
        (("usd = 20", 'usd = "20"'), 3, "budget.usd"),
        (("usd = 20", "usd = 0"), 3, "budget.usd"),
        (("usd = 20", "usd = nan"), 3, "budget.usd"),
        (("usd = 20", "money = 20"), 3, "budget.money"),
        (("reviewer =", "critic ="), 4, "roles.critic"),
        (('"codex" }', "1 }"), 4, "roles"),
        (('id = "writer"', 'id = "Write it"'), 11, "order[1].id"),
        (('after = ["model"]', 'after = ["modle"]'), 13, "order[1].after"),
        (('after = ["model"]', 'after = ["writer"]'), 13, "order[1].after"),
        (('task = "Write rows."', 'task = " "'), 12, "order[1].task"),
        (('done = "make test"', 'done = ""'), 2, "done"),
        (('done = "make test"', 'done = "x"\ngates = ["plan", "door"]'), 3, "gates[1]"),
        (('done = "make test"', 'done = "x"\ngates = ["agent:cook"]'), 3, "gates[0]"),
        (('done = "make test"', 'done = "x"\ngates = ["none", "plan"]'), 3, "gates"),
        (('accept = ["', 'land = false\naccept = ["'), 10, "order[0].accept"),
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


def test_a_plan_without_mistakes_is_read_and_a_budget_is_wanted_only_where_it_is_required() -> None:
    plan, none = read(PLAIN)
    assert plan is not None and none == [] and plan.budget is not None and plan.budget.usd == 1
    bare = PLAIN.replace("budget = {usd = 1}\n", "")
    assert [each[2] for each in told(bare)] == ["there is no budget"] and told(bare, budget_required=False) == []
    for gate in ("agent:reviewer", "wave", "none"):
        assert told(PLAIN.replace("[[order]]", f'gates = ["{gate}"]\n[[order]]')) == []
    whole = PLAIN.replace("usd = 1", "usd = 1.5, tokens = 2")
    assert told(whole) == [] and "whole number" in told(whole.replace("tokens = 2", "tokens = 2.5"))[0][2]
    many = 'goal = "g"\ndone = "x"\n' + "".join(f'[[order]]\nid = "o{number}"\ntask = "t"\n' for number in range(1001))
    assert [each[1:] for each in told(many, budget_required=False)] == [
        ("order", "1001 orders are more than 1000", "split the goal")
    ]
    assert told(many.rsplit("[[order]]", 1)[0], budget_required=False) == []
