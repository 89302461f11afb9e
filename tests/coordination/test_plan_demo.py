"""What briefing a plan of one's own costs."""

from pathlib import Path

import pytest

from tests.coordination.conftest import Run
from treadle.coordination.demo import measure, tasks_of

PLAN = (
    "# Plan\n\nWhy.\n\n## Rules for all\n\n### Money\n\nNo floats.\n\n## Wave 1\n\n### 1. Book\n\n{0}\n\n"
    "### 2. Feed\n\n{0}\n\n### Empty\n\n## Later\n\nOne more thing.\n"
)


def percents(plan: str) -> list[str]:
    return [line.rpartition("(")[2] for line in measure(plan, "PLAN.md") if line.endswith("%)")]


def test_the_tasks_are_the_innermost_sections_that_are_no_rules() -> None:
    assert [one.anchor for one in tasks_of(PLAN.format("Do it."))] == ["1-book", "2-feed", "later"]


def test_another_plan_gives_other_figures_and_all_come_from_its_texts() -> None:
    short, long = PLAN.format("Do it."), PLAN.format("Do it well, and test it. " * 200)
    assert percents(short) != percents(long) and len(percents(long)) == 4
    saved, cached, named, typed = (int(one.rstrip("%)")) for one in percents(long))
    assert saved < cached, "a cached plan costs less to repeat"
    assert named < typed, "a spec that is typed again costs more than one that is named"


@pytest.mark.parametrize("words", [1, 20, 400])
def test_the_least_that_any_brief_costs_at_cached_prices_is_said(words: int) -> None:
    lines = list(measure(PLAN.format("Do it. " * words), "PLAN.md"))
    (cached,) = (line for line in lines if line.startswith("where a prompt's beginning is cached"))
    (least,) = (line for line in lines if line.startswith("no briefs"))
    assert int(least.split(" than ")[1].split()[0]) <= int(cached.split(" -> ")[1].split()[0])


def test_the_command_measures_the_file_and_refuses_one_without_tasks(heimdall: Run, tmp_path: Path) -> None:
    (tmp_path / "PLAN.md").write_text(PLAN.format("Do it. " * 100))
    done = heimdall("protocol", "demo", "--plan", str(tmp_path / "PLAN.md"))
    assert done.returncode == 0 and "briefing 3 spawns, verbatim" in done.stdout and "no model was asked" in done.stdout
    (tmp_path / "PLAN.md").write_text("# Plan\n\nOne text.\n")
    assert heimdall("protocol", "demo", "--plan", str(tmp_path / "PLAN.md")).returncode == 1
    assert heimdall("protocol", "demo", "--plan", str(tmp_path / "none")).returncode == 1
