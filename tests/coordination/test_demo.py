"""The measured demo: none of its numbers is hard-coded, and it counts what is written and read both ways."""

import re
from pathlib import Path

from tests.coordination.conftest import Run
from treadle.coordination import briefs, demo
from treadle.coordination.planning import Planning, write_text
from treadle.sessions.tokens import estimate


def planned(tmp_path: Path) -> Planning:
    write_text(str(tmp_path / "PLAN.md"), demo._read("plan.md"))
    return Planning(str(tmp_path / ".planning"), project=str(tmp_path))


def test_it_prints_the_three_lines_and_the_summary_with_what_it_counted(heimdall: Run, tmp_path: Path) -> None:
    done = heimdall("protocol", "demo", "--keep", str(tmp_path / "kept"))
    first, second, third, summary, *_, how = done.stdout.splitlines()
    kept = {path.name: estimate(path.read_text()) for path in (tmp_path / "kept").iterdir()}
    base = sum(tokens for name, tokens in kept.items() if name.startswith("verbatim"))
    measured = sum(tokens for name, tokens in kept.items() if not name.startswith("verbatim"))
    percent = round(100 * (base - measured) / base)
    assert first == f"v1 orchestration (briefing 3 spawns, verbatim): {base} tokens (baseline)"
    assert second == f"v2 orchestration (symbol table + 3 delta briefs + 3 typed results): {measured} tokens"
    assert third == f"measured delta: orchestration: {base} -> {measured} tokens (-{percent}%)"
    assert summary == f"orchestration: {round(base / 1000)}k → {measured} tokens, measured."
    assert "estimated" in how and percent > 73
    assert sorted(kept) == sorted(
        ["symbol_table.txt"]
        + [f"{kind}-2.{n}.txt" for kind in ("verbatim", "delta_brief", "task_result") for n in (1, 2, 3)]
    )


def test_no_figure_of_it_is_in_its_source() -> None:
    lines = list(demo.demo())
    figures = {number for line in lines for number in re.findall(r"\d{4,}", line)}
    source = Path(demo.__file__).read_text()
    assert figures and not any(number in source for number in figures)


def test_in_full_the_default_way_saves_and_typing_the_specs_costs_five_times_their_tokens(tmp_path: Path) -> None:
    planning = planned(tmp_path)
    costs = [int(line.split(": ")[1].split()[0]) for line in demo.demo() if line.startswith(("  verb", "  by"))]
    verbatim, named, typed = costs
    specs = sum(estimate(briefs.spec_at(planning.project, task["spec"])) for task in demo.wave_given()["tasks"])
    assert named < verbatim and typed - named == demo.WRITTEN * specs


def test_both_versions_say_the_same_task_and_the_delta_briefs_are_complete(tmp_path: Path) -> None:
    planning = planned(tmp_path)
    verbatim, texts = demo.verbatim(planning), demo.by_reference(planning)
    for task in demo.wave_given()["tasks"]:
        spec = briefs.spec_at(planning.project, task["spec"])
        brief = texts[f"delta_brief {task['task']}"]
        assert spec in verbatim[f"verbatim {task['task']}"]
        assert briefs.UNRESOLVED not in brief and " ".join(spec.split()) in " ".join(brief.split())
        assert all(f"C{one} = {demo.wave_given()['symbols'][f'C{one}']}" in brief for one in task["criteria"])


def test_it_leaves_nothing_in_the_project(heimdall: Run, project: Path) -> None:
    heimdall("protocol", "demo")
    assert [path.name for path in project.iterdir() if path.name != ".git"] == ["src"]
