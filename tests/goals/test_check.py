"""What a plan will do in a repository, said before anything runs."""

from pathlib import Path

import pytest

from treadle.coordination.ledger import Blackboard
from treadle.coordination.planning import Planning
from treadle.goals.check import CAPSULE_TOKENS, check

PLAN = """goal = "Export"
done = "true"
verify = "true"
invariants = "AGENTS.md#rules"
budget = { orders = 5 }
roles = { worker = "native", reviewer = "codex" }
[[order]]
id = "a"
task = "First."
claims = ["a.py"]
accept = ["test -e a.py"]
symbols = ["S1"]
[[order]]
id = "b"
task = "Second."
claims = ["b.py"]
accept = ["test -e b.py"]
[[order]]
id = "c"
task = "Third."
after = ["a", "b"]
claims = ["c.py"]
accept = ["test -e c.py"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "AGENTS.md").write_text("# Shop\n\n## Rules\n\nNo globals.\n\n## Else\n\nNot this.\n")
    symbols = tmp_path / ".planning" / "protocol" / "symbols.json"
    symbols.parent.mkdir(parents=True)
    symbols.write_text('{"symbols": {"S1": "the row type in a.py"}}')
    return tmp_path


def test_waves_briefs_and_costs_are_worked_out_and_nothing_is_written(project: Path) -> None:
    before = sorted(project.rglob("*"))
    found = check(PLAN, str(project))
    assert found.mistakes == () and found.notes == ()
    assert [wave.orders for wave in found.waves] == [("a", "b"), ("c",)]
    a, b, c = found.briefs
    assert found.plan is not None and found.overlaps == ()
    assert [(each.order, each.own > 0) for each in found.briefs] == [("a", True), ("b", True), ("c", True)]
    assert a.shared == b.shared > c.shared > 0 and (a.capsules, c.capsules) == (0, 2 * CAPSULE_TOKENS)
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "line", "place"),
    [
        (("AGENTS.md#rules", "AGENTS.md#laws"), 4, "invariants"),
        (("AGENTS.md#rules", "NONE.md"), 4, "invariants"),
        (('"codex"', '"kodex"'), 6, "roles.reviewer"),
        (('task = "Second."', 'task = "Second."\nagent = "nobody-here"'), 16, "order[1].agent"),
        (('["S1"]', '["S9"]'), 12, "order[0].symbols"),
        (('["a.py"]', f'["{"{a,b}" * 20}"]'), 10, "order[0].claims[0]"),
        (('["a.py"]', '["/etc/passwd"]'), 10, "order[0].claims[0]"),
        (('["a.py"]', '["src/../../other/*"]'), 10, "order[0].claims[0]"),
        (('["a.py"]', '["~/.ssh/**"]'), 10, "order[0].claims[0]"),
    ],
)
def test_what_leads_nowhere_in_this_repository_is_a_mistake(
    project: Path, change: tuple[str, str], line: int, place: str
) -> None:
    found = check(PLAN.replace(*change), str(project))
    assert [(each.line, each.place) for each in found.mistakes] == [(line, place)] and found.waves == ()
    assert all(each.what and each.hint for each in found.mistakes if "claims" not in each.place)


def test_what_may_be_an_oversight_is_noted(project: Path) -> None:
    text = PLAN
    for line in ('verify = "true"\n', 'accept = ["test -e b.py"]\n', 'claims = ["b.py"]\n'):
        text = text.replace(line, "")
    found = check(text, str(project))
    assert found.mistakes == () and [each.place for each in found.notes] == ["", "order[1]", "order[1]"]
    assert [each.what.partition(":")[0] for each in found.notes] == [
        "no verify",
        "b claims no files, so overlaps with it are not seen",
        "nothing accepts b",
    ]
    research = check(text.replace('task = "Second."', 'task = "Second."\nland = false'), str(project))
    assert [each.place for each in research.notes] == [""], "what does not land needs neither"


@pytest.mark.parametrize("agent", ["native", "person", "none", "null:3:3", "acp:my-agent"])
def test_a_role_may_be_an_agent_a_person_or_none(project: Path, agent: str) -> None:
    assert check(PLAN.replace('"codex"', f'"{agent} big"'), str(project)).mistakes == ()


def test_what_is_no_plan_has_mistakes_and_nothing_else(project: Path) -> None:
    found = check("goal =", str(project))
    assert found.plan is None and found.mistakes and not found.notes
    assert check(PLAN.replace("budget = { orders = 5 }\n", ""), str(project)).mistakes
    free = check(PLAN.replace("budget = { orders = 5 }\n", ""), str(project), budget_required=False)
    assert not free.mistakes and len(free.waves) == 2


def test_what_may_not_go_together_is_told_and_facts_count_for_each_brief(project: Path) -> None:
    plain = check(PLAN, str(project))
    Blackboard(Planning(project=str(project))).set("port", "5173 " * 30)
    both = check(PLAN.replace('["b.py"]', '["a.py"]'), str(project))
    assert [(each.first, each.second) for each in both.overlaps] == [("a", "b")] and len(both.waves) == 3
    assert all(now.own > old.own + 20 for now, old in zip(both.briefs, plain.briefs, strict=True))
