"""What briefing a plan of one's own costs."""

from pathlib import Path

import pytest

from tests.coordination.conftest import Run
from treadle.coordination.briefs import WaveTask, build_wave
from treadle.coordination.demo import measure, sections, tasks_of
from treadle.coordination.planning import Planning
from treadle.sessions.tokens import estimate

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


@pytest.mark.parametrize(("anchor", "code"), [("1-book", 0), ("none", 1)])
def test_a_brief_takes_its_spec_from_a_section_of_the_plan(
    heimdall: Run, project: Path, anchor: str, code: int
) -> None:
    (project / "PLAN.md").write_text(PLAN.format("Do it."))
    done = heimdall("brief", "build", "--task", "1", "--spec", f"PLAN.md#{anchor}")
    assert done.returncode == code
    assert not code or "leads nowhere" in done.stderr and done.stdout == ""
    assert code or "  ### 1. Book\n\n  Do it.\n" in done.stdout and "Feed" not in done.stdout


def test_a_spec_that_only_looks_like_a_reference_is_a_text(heimdall: Run) -> None:
    done = heimdall("brief", "build", "--task", "1", "--spec", "mend issue#3 in notes.md# please")
    assert done.returncode == 0 and "issue#3" in done.stdout


def test_a_section_ends_with_the_next_that_is_not_inside_it_and_rules_are_for_all_inside_them() -> None:
    found = [
        (one.anchor, one.text.rstrip().splitlines()[-1], one.rule, one.leaf) for one in sections(PLAN.format("Do it."))
    ]
    assert found == [
        ("plan", "One more thing.", False, False),
        ("rules-for-all", "No floats.", True, False),
        ("money", "No floats.", True, True),
        ("wave-1", "### Empty", False, False),
        ("1-book", "Do it.", False, True),
        ("2-feed", "Do it.", False, True),
        ("empty", "### Empty", False, True),
        ("later", "One more thing.", False, True),
    ]
    (money,) = (one for one in sections(PLAN.format("Do it.")) if one.anchor == "money")
    assert (money.title, money.body, money.text) == ("### Money", "\nNo floats.\n", "### Money\n\nNo floats.\n")


@pytest.mark.parametrize("rules", ["## Constraints\n\nNo floats.\n\n", ""])
def test_every_figure_is_made_of_the_texts_that_are_sent(rules: str, tmp_path: Path) -> None:
    plan = f"# Plan\n\n{rules}## One\n\nDo this. Then that, and more.\n\n## Two\n\nDo the rest of it, in any order.\n"
    tasks = tasks_of(plan)
    (tmp_path / "rules.md").write_text("\n".join(one.text for one in sections(plan) if one.rule))
    listed = [WaveTask(one.anchor, one.text) for one in tasks]
    wave = build_wave(Planning(str(tmp_path / ".p"), project=str(tmp_path)), listed, "rules.md" if rules else "")
    whole, shared = estimate(f"You are working on this plan.\n\n{plan}\n"), estimate(wave.shared)
    asked = sum(
        estimate(f"# Your task\n\nDo: {one.title}. Keep every rule of the plan, and report what you did.\n")
        for one in tasks
    )
    answers = sum(
        estimate(
            f'{{"type":"task_result","from":"coder","msg_id":"r-{name}","task":"{name}","status":"pass",'
            f'"criteria":[1,2],"commit":"a2ef507","capsule":"done-{name}"}}'
        )
        for name in ("one", "two")
    )
    before, after = 2 * whole + asked, 2 * shared + sum(map(estimate, wave.own.values())) + answers
    typed = sum(estimate(one.text) for one in tasks)
    named = sum(estimate(f'heimdall-brief build --task {one} --spec "P.md#{one}"\n') for one in ("one", "two"))
    lines = list(measure(plan, "P.md"))
    assert lines[0] == f"v1 orchestration (briefing 2 spawns, verbatim): {before} tokens (baseline)"
    assert lines[1] == f"v2 orchestration (2 briefs from the plan's sections + 2 typed results): {after} tokens"
    assert lines[2] == f"measured delta: orchestration: {before} -> {after} tokens ({percent(before, after)})"
    assert lines[3] == f"orchestration: {round(before / 1000)}k → {after} tokens, measured."
    before, after = round(before - 0.9 * whole), round(after - 0.9 * shared)
    assert lines[4].endswith(f": {before} -> {after} tokens' worth ({percent(before, after)})")
    assert lines[5].startswith(f"no briefs could cost less than {round(typed + shared * 1.1)} there: ")
    before += 5 * asked
    for line, words in ((lines[6], named), (lines[7], typed)):
        cost = after + 5 * words
        assert line.endswith(f": {before} -> {cost} tokens' worth ({percent(before, cost)})")
    assert "specs named" in lines[6] and "specs typed again" in lines[7]


def percent(before: int, after: int) -> str:
    return f"{round(100 * (after - before) / before):+}%".replace("+0%", "-0%")
