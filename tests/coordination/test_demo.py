"""The measured demo: none of its numbers is hard-coded."""

import re
from pathlib import Path

from tests.coordination.conftest import Run
from treadle.coordination import briefs, demo
from treadle.coordination.briefs import WaveTask, build_wave
from treadle.coordination.planning import Planning
from treadle.sessions.tokens import estimate


def test_it_prints_the_three_lines_and_the_summary_with_what_it_counted(heimdall: Run, tmp_path: Path) -> None:
    done = heimdall("protocol", "demo", "--keep", str(tmp_path / "kept"))
    first, second, third, summary, full, cached, how = done.stdout.splitlines()
    kept = {path.name: estimate(path.read_text()) for path in (tmp_path / "kept").iterdir()}
    base = sum(tokens for name, tokens in kept.items() if name.startswith("verbatim"))
    measured = sum(tokens for name, tokens in kept.items() if not name.startswith("verbatim"))
    percent = round(100 * (base - measured) / base)
    assert first == f"v1 orchestration (briefing 3 spawns, verbatim): {base} tokens (baseline)"
    assert second == f"v2 orchestration (symbol table + 3 delta briefs + 3 typed results): {measured} tokens"
    assert third == f"measured delta: orchestration: {base} -> {measured} tokens (-{percent}%)"
    assert summary == f"orchestration: {round(base / 1000)}k → {measured} tokens, measured."
    assert "estimated" in how
    assert percent > 73
    read = measured + 3 * estimate(demo.rules())
    told = f"with the invariants and rules that each spawn then reads: {base} -> {read} tokens"
    assert full == f"{told} (-{round(100 * (base - read) / base)}%)"
    assert "I1. The balances" in demo.rules() and "Rebase, do not merge" in demo.rules()
    assert sorted(kept) == sorted(
        ["symbol_table.txt"]
        + [f"{kind}-2.{n}.txt" for kind in ("verbatim", "delta_brief", "task_result") for n in (1, 2, 3)]
    )
    shared, own = in_one_wave(tmp_path)
    restated = estimate((tmp_path / "kept" / "verbatim-2.1.txt").read_text().rpartition("# Your task")[0])
    beside = sum(tokens for name, tokens in kept.items() if name.startswith(("symbol_table", "task_result")))
    before, after = round(base - 0.9 * 2 * restated), round(beside + own + 3 * shared - 0.9 * 2 * shared)
    told = "where a prompt's beginning is cached, at a tenth of the price, and briefs begin alike"
    worth = f"{before} -> {after} tokens' worth (-{round(100 * (before - after) / before)}%)"
    assert cached == f"{told}: {worth}"


def in_one_wave(tmp_path: Path) -> tuple[int, int]:
    """The tokens of what briefs of one wave have in common, and of what each has for itself."""
    planning = Planning(str(tmp_path / ".planning"), project=str(tmp_path))
    demo.by_reference(planning)
    (tmp_path / "rules.md").write_text(demo.rules())
    tasks = [
        WaveTask(task["task"], task["spec"], task["symbols"], task["capsules"]) for task in demo.wave_given()["tasks"]
    ]
    wave = build_wave(planning, tasks, "rules.md")
    return estimate(wave.shared), sum(map(estimate, wave.own.values()))


def test_no_figure_of_it_is_in_its_source() -> None:
    lines = list(demo.demo())
    figures = {number for line in lines for number in re.findall(r"\d{4,}", line)}
    source = Path(demo.__file__).read_text()
    assert figures and not any(number in source for number in figures)


def test_both_versions_say_the_same_task_and_the_delta_briefs_are_complete(tmp_path: Path) -> None:
    verbatim = demo.verbatim()
    texts = demo.by_reference(Planning(str(tmp_path / ".planning"), project=str(tmp_path)))
    for task in demo.wave_given()["tasks"]:
        assert task["spec"] in verbatim[f"verbatim {task['task']}"]
        assert briefs.UNRESOLVED not in texts[f"delta_brief {task['task']}"]
        for criterion in task["criteria"]:
            assert (
                f"C{criterion} = {demo.wave_given()['symbols'][f'C{criterion}']}"
                in texts[f"delta_brief {task['task']}"]
            )


def test_it_leaves_nothing_in_the_project(heimdall: Run, project: Path) -> None:
    heimdall("protocol", "demo")
    assert [path.name for path in project.iterdir() if path.name != ".git"] == ["src"]
