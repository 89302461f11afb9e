"""Lists of other tools become plans, and plans become theirs."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.goals.imported import kind_of, read_list, read_tasks, to_toml
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, read

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


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1. [ ] first\n", "checklist"),
        ("  2) [X] second\n", "checklist"),
        ('{"id": 1, "title": "x"}\n{"id": 2}', "beads"),
        ('{"tasks": []}', "taskmaster"),
        ('{"id": 1, "tasks": []}', "taskmaster"),
    ],
)
def test_a_list_is_known_by_its_contents(text: str, kind: str) -> None:
    assert kind_of("x", text) == kind


def test_what_stands_between_the_items_of_a_checklist_belongs_to_none_or_to_the_one_above() -> None:
    text = "  Words.\n  - [ ] One\n    more\n\n    after a line\nOut of it.\n  - [ ] Two\n- [ ] One\n  - [x] sub\n"
    plan = read_list("checklist", "TODO.md", text)
    assert plan.goal == "TODO.md"
    assert [(each.id, each.task) for each in plan.order] == [
        ("one", "One\nmore\n\nafter a line"),
        ("two", "Two"),
        ("one-2", "One\n- [x] sub"),
    ]
    with pytest.raises(ConfigError, match="TODO.md has no open tasks") as refused:
        read_list("checklist", "TODO.md", "words\n")
    assert refused.value.hint == "tasks that are done are left out"


def test_ids_are_short_plain_and_never_the_same() -> None:
    titles = ["Größe & Preis!", "a" * 31 + "-b", "---", "??", "x_1"]
    plan = read_list("checklist", "x", "".join(f"- [ ] {title}\n" for title in titles))
    assert [each.id for each in plan.order] == ["gr-e-preis", "a" * 31, "task", "task-2", "x_1"]


def test_one_markdown_file_is_a_task_and_beads_of_many_epics_are_named_by_their_file() -> None:
    (one,) = read_list("tasks", "todo.md", "# Title\n\nwords\n").order
    assert (one.id, one.title, one.task) == ("todo", "Title", "# Title\n\nwords")
    rows = [
        {"id": "e1", "title": "One", "issue_type": "epic"},
        {"id": "e2", "title": "Two", "issue_type": "epic"},
        {"id": "b", "title": "Same", "description": "Same", "issue_type": "bug", "notes": "N"},
        {"id": "m", "title": "Other kind", "issue_type": "merge-request"},
        {"id": "gone", "title": "x", "status": "tombstone"},
        {"id": "w", "title": "W", "dependencies": ["odd", {"depends_on_id": "b", "type": "waits-for"}]},
    ]
    plan = read_list("beads", "issues.jsonl", "\n\n".join(json.dumps(each) for each in rows))
    assert plan.goal == "issues.jsonl" and [(each.id, each.task) for each in plan.order] == [
        ("b", "Same\n\nN"),
        ("w", "W"),
    ]
    assert plan.order[1].after == ("b",) and plan.order[1].discovered_from == plan.order[0].discovered_from == ""
    with pytest.raises(ConfigError, match="x, line 2: this is no issue with an id"):
        read_list("beads", "x", '{"id": "a", "title": "t"}\n{"title": "t"}')
    with pytest.raises(ConfigError, match="x, line 1: this is no issue"):
        read_list("beads", "x", "[]")
    with pytest.raises(ConfigError, match="has no list `tasks`") as refused:
        read_list("taskmaster", "x", '{"tasks": 3}')
    assert ".taskmaster/tasks/tasks.json" in (refused.value.hint or "")


def test_open_steps_of_a_task_are_listed_and_odd_entries_are_skipped() -> None:
    steps = [{"title": "done", "status": "done"}, {"title": "open"}, "odd"]
    tasks = {
        "tasks": [{"id": 1, "title": "T", "testStrategy": "try it", "subtasks": steps, "dependencies": [9]}, "odd"]
    }
    (one,) = read_list("taskmaster", "x", json.dumps({"meta": {}, "first": tasks})).order
    assert (one.title, one.task, one.after) == ("T", "T\n\ntry it\n- open", ())


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
