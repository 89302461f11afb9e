"""Lists of other tools become plans, and plans become theirs."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.goals.imported import kind_of, read_list, read_tasks, to_beads, to_taskmaster, to_toml
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder
from treadle.wire.goal.reading import read

CHECKLIST = """# Export

Some words first.

- [ ] Write rows
  as CSV
  - [ ] quoted
- [x] done before
* [ ] An API!
"""
BEADS = """{"id": "bd-1", "title": "Epic", "issue_type": "epic", "status": "open"}
{"id": "bd-a3.1", "title": "Rows", "description": "A type.", "acceptance_criteria": "has tests", "status": "open"}
{"id": "bd-b", "title": "Old", "status": "closed"}
{"id": "bd-c", "title": "API", "dependencies": [{"issue_id": "bd-c", "depends_on_id": "bd-a3.1", "type": "blocks"},
"""
TASKS = {
    "master": {
        "tasks": [
            {"id": 1, "title": "Init", "status": "done"},
            {"id": 2, "title": "Rows", "description": "A type.", "details": "In rows.py.", "dependencies": [1]},
            {"id": 3, "title": "API", "dependencies": [1, 2], "subtasks": [{"id": 1, "title": "route"}]},
        ]
    }
}


def test_open_items_of_a_checklist_are_orders_and_what_is_indented_is_their_task() -> None:
    assert kind_of("TODO.md", CHECKLIST) == "checklist"
    plan = read_list("checklist", "TODO.md", CHECKLIST)
    assert plan.goal == "Export" and plan.source == "TODO.md"
    assert [(each.id, each.task) for each in plan.order] == [
        ("write-rows", "Write rows\nas CSV\n- [ ] quoted"),
        ("an-api", "An API!"),
    ]


def test_open_issues_of_beads_keep_what_blocks_them_and_where_they_came_from() -> None:
    text = BEADS.splitlines()
    links = [("bd-a3.1", "blocks"), ("bd-b", "blocks"), ("bd-a3.1", "discovered-from"), ("bd-1", "parent-child")]
    needs = [{"depends_on_id": other, "type": kind} for other, kind in links]
    text[3] = json.dumps({"id": "bd-c", "title": "API", "dependencies": needs})
    plan = read_list(kind_of("issues.jsonl", "\n".join(text)), "issues.jsonl", "\n".join(text))
    rows, api = plan.order
    assert plan.goal == "Epic" and (rows.id, rows.task) == ("bd-a3-1", "Rows\n\nA type.\n\nhas tests")
    assert rows.accept == () and api.after == ("bd-a3-1",) and api.discovered_from == "bd-a3-1"


def test_a_broken_line_of_beads_is_named() -> None:
    with pytest.raises(ConfigError, match="issues.jsonl, line 4: this is not JSON"):
        read_list("beads", "issues.jsonl", BEADS)


@pytest.mark.parametrize("document", [TASKS, TASKS["master"], {"other": TASKS["master"]}])
def test_open_tasks_of_task_master_wait_only_for_what_is_open(document: dict[str, object]) -> None:
    text = json.dumps(document)
    plan = read_list(kind_of("tasks.json", text), "tasks.json", text)
    rows, api = plan.order
    assert (rows.id, rows.after, rows.task) == ("t2", (), "Rows\n\nA type.\n\nIn rows.py.")
    assert (api.after, api.task) == (("t2",), "API\n- route")


def test_each_markdown_file_of_a_directory_is_an_order() -> None:
    plan = read_tasks("tasks", {"02 api.md": "# The API\n\nServe it.\n", "01 rows.md": "Write rows.\n"})
    assert [(each.id, each.title, each.task) for each in plan.order] == [
        ("01-rows", "01 rows", "Write rows."),
        ("02-api", "The API", "# The API\n\nServe it."),
    ]


@pytest.mark.parametrize("text", ["just words", "{}", "[1]", "{", '{"tasks": 3}'])
def test_what_is_no_list_of_tasks_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no list of tasks"):
        kind_of("x", text)


def test_a_list_with_nothing_open_is_refused() -> None:
    with pytest.raises(ConfigError, match="no open tasks"):
        read_list("checklist", "TODO.md", "- [x] done\n")


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


@given(plans())
def test_a_plan_goes_to_other_tools_and_back_with_what_comes_after_what(plan: GoalPlan) -> None:
    place = {order.id: number for number, order in enumerate(plan.order)}
    expected = [sorted(place[each] for each in order.after) for order in plan.order]
    for kind, text in (("beads", to_beads(plan)), ("taskmaster", to_taskmaster(plan))):
        back = read_list(kind, "x", text).order  # type: ignore[arg-type]
        again = {order.id: number for number, order in enumerate(back)}
        assert [sorted(again[each] for each in order.after) for order in back] == expected
        assert all(order.task.strip() in other.task for order, other in zip(plan.order, back, strict=True))
