"""A plan is read whole, or every mistake in it is named with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.goal.plan import GoalBudget
from treadle.wire.goal.reading import read

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
