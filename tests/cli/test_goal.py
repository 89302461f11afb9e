"""`treadle goal`: a plan is explained, its mistakes are named by line, and other tools' lists become plans."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.fleet.repositories import git
from treadle.cli.root import treadle
from treadle.errors import ConfigError
from treadle.wire.goal.plan import read

PLAN = """goal = "Export"
done = "make test"
budget = { usd = 20, hours = 0.5 }
[[order]]
id = "rows"
task = "A type for a row."
claims = ["rows.py"]
accept = ["test -e rows.py"]
[[order]]
id = "api"
title = "The API"
task = "Serve it."
after = ["rows"]
claims = ["api/**"]
accept = ["test -e api"]
[[order]]
id = "docs"
task = "Say how."
claims = ["rows.py"]
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(treadle, ["goal", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "goal.toml").write_text(PLAN)
    return tmp_path / "goal.toml"


def test_a_plan_is_explained_by_waves_overlaps_briefs_and_tokens(plan: Path) -> None:
    code, said = run("check", "goal.toml")
    assert code == 0 and said.startswith(
        "goal    Export\ndone    make test\nlands   on main\nbudget  20 USD, 0.5 h\nasks    plan"
    )
    waves = said[said.index("wave 1") : said.index("overlapping")]
    assert waves.index("rows  A type") < waves.index("wave 2") < waves.index("api   The API") < waves.index("docs")
    assert "after rows; claims api/**" in said and "  rows and docs: rows.py\n" in said
    assert "all briefs: " in said and "restating the plan to each: " in said
    assert "goal.toml:16: note: order[2]: nothing accepts docs" in said


def test_the_same_facts_are_there_for_programs(plan: Path) -> None:
    found = json.loads(run("check", "goal.toml", "--json")[1])
    assert [wave["orders"] for wave in found["waves"]] == [["rows"], ["api", "docs"]]
    assert found["overlaps"] == [{"first": "rows", "second": "docs", "claims": ["rows.py", "rows.py"]}]
    assert found["delta"]["cached"] <= found["delta"]["uncached"] and found["mistakes"] == []


def test_mistakes_are_named_by_file_line_and_field_and_end_with_1(plan: Path) -> None:
    plan.write_text(PLAN.replace("budget =", "# ").replace('after = ["rows"]', 'after = ["row"]'))
    code, said = run("check", "goal.toml")
    assert code == 1 and said.splitlines() == [
        "goal.toml:1: budget: there is no budget (as in budget = { usd = 20, hours = 3 }, or run it with --no-budget)",
        "goal.toml:13: order[1].after: there is no order 'row' (did you mean rows?)",
        "2 mistakes; a plan with mistakes does not run",
    ]
    code, said = run("check", "goal.toml", "--no-budget")
    assert code == 1 and "budget" not in said and "\n1 mistake; a plan with mistakes does not run\n" in said


def test_a_checklist_becomes_a_plan_that_asks_a_person_and_replaces_no_file(plan: Path) -> None:
    Path("TODO.md").write_text("# Export\n- [ ] rows\n- [ ] api\n")
    with pytest.raises(ConfigError, match="goal.toml is there already"):
        run("import", "TODO.md")
    assert plan.read_text() == PLAN
    code, said = run("import", "TODO.md", "--out", "new.toml")
    made, _ = read(Path("new.toml").read_text())
    assert code == 0 and "2 orders from TODO.md" in said and made is not None and made.gated == ("plan",)
    assert run("import", "TODO.md", "--force")[0] == 0 and plan.read_text() != PLAN
    assert run("import", "TODO.md", "--out", "-")[1] == plan.read_text()


def test_a_directory_of_markdown_tasks_becomes_a_plan(plan: Path) -> None:
    Path("tasks").mkdir()
    with pytest.raises(ConfigError, match="has no Markdown files"):
        run("import", "tasks", "--out", "-")
    Path("tasks/1.md").write_text("# Rows\n")
    assert 'title = "Rows"' in run("import", "tasks", "--out", "-")[1]


def test_a_plan_is_printed_for_other_tools_and_a_broken_one_is_refused(plan: Path) -> None:
    assert json.loads(run("export", "goal.toml", "--to", "taskmaster")[1])["master"]["tasks"][1]["dependencies"] == [1]
    assert json.loads(run("export", "goal.toml", "--to", "beads")[1].splitlines()[0])["id"] == "rows"
    plan.write_text("goal = 3\n")
    with pytest.raises(ConfigError, match=r"goal.toml:1: "):
        run("export", "goal.toml", "--to", "beads")
    plan.write_bytes(b"goal = '\xff'")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        run("check", "goal.toml")


def test_each_order_is_told_with_what_it_waits_for_and_the_plan_with_who_is_asked(plan: Path) -> None:
    more = 'gates = ["none"]\nverify = "make"\nbranch = "next"\n'
    long = f'[[order]]\nid = "look"\ntask = """{"w" * 100}\nsecond"""\nland = false\n'
    plan.write_text(PLAN.replace("[[order]]", f"{more}[[order]]", 1) + long)
    code, said = run("check", "goal.toml")
    assert code == 0 and "\nlands   on next, checked by make\n" in said and "\nasks    no one\n" in said
    assert f"\n  look  {'w' * 90}\n        does not land\n" in said
    assert "\n  rows  A type for a row.\n        claims rows.py\n" in said
    assert "\nbriefs, in tokens (estimated)\n  rows  " in said and " + at most " in said
    assert "overlapping claims, so the second goes a wave later" in said
    plan.write_text(
        'goal = "g"\ndone = "true"\nbudget = { orders = 1 }\n[[order]]\nid = "a"\ntask = "t"\naccept = ["true"]\n'
    )
    assert "overlapping" not in run("check", "goal.toml")[1]
    plan.write_text("goal = 3\n")
    code, said = run("check", "goal.toml", "--json")
    assert code == 1 and json.loads(said)["mistakes"]


def test_with_run_its_commands_are_tried_where_it_says(plan: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    plan.write_text(PLAN.replace("test -e rows.py", "true"))
    plain, tried = (run("check", "goal.toml", "--root", str(repository), *words)[1] for words in ([], ["--run"]))
    assert "passes" not in plain and "passes already" in tried


def test_what_is_imported_is_seen_from_its_contents_or_said(plan: Path) -> None:
    Path("tasks.json").write_text('{"master": {"tasks": [{"id": 1, "title": "Rows", "status": "pending"}]}}')
    assert 'title = "Rows"' in run("import", "tasks.json", "--out", "-")[1]
    assert 'title = "Rows"' in run("import", "tasks.json", "--from", "taskmaster", "--out", "-")[1]
    with pytest.raises(ConfigError):
        run("import", "tasks.json", "--from", "beads", "--out", "-")
    Path("TODO.md").write_text("# Export\n- [ ] rows\n")
    assert run("import", "TODO.md", "--out", "made.toml") == (
        0,
        "made.toml: 1 orders from TODO.md; `treadle goal check made.toml` says what to fill in\n",
    )
    assert Path("made.toml").stat().st_mode & 0o777 == 0o644
    for words in (("import", "nowhere"), ("check", "nowhere"), ("check", "."), ("export", ".", "--to", "beads")):
        assert run(*words)[0] == 2
    assert run("export", "goal.toml")[0] == 2
