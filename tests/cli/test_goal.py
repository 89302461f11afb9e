"""`treadle goal`: a plan is explained, its mistakes are named by line, and other tools' lists become plans."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.cli.root import treadle
from treadle.errors import ConfigError
from treadle.wire.goal.reading import read

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
