"""heimdall-protocol: the umbrella over the other commands, and the trail."""

from pathlib import Path

from tests.coordination.conftest import Run


def test_the_umbrella_dispatches_and_passes_exit_codes_through(heimdall: Run) -> None:
    heimdall("protocol", "resolve", "set", "F1", "x")
    assert heimdall("protocol", "resolve", "F1").stdout == "x\n"
    assert heimdall("protocol", "resolve", "F9").returncode == 1
    assert heimdall("protocol", "claim", "claim").returncode == 2
    assert heimdall("protocol", "nonsense").returncode == 2


def test_the_trail_can_be_tailed(heimdall: Run) -> None:
    for number in range(25):
        heimdall("resolve", "set", f"F{number}", "x")
    assert len(heimdall("protocol", "log").stdout.splitlines()) == 20
    assert heimdall("protocol", "log", "2").stdout.splitlines()[1].endswith("\tresolve\tset\tF24=x")
    assert len(heimdall("protocol", "log", "9" * 18).stdout.splitlines()) == 25
    for wrong in ("x", "-1", "9" * 19):
        assert heimdall("protocol", "log", wrong).returncode == 2


def test_the_planning_directory_is_made_and_a_host_is_told_of_the_server(heimdall: Run, project: Path) -> None:
    assert heimdall("protocol", "init").stdout == f"initialised {project / '.planning'}\n"
    assert not (project / ".mcp.json").exists()
    assert heimdall("protocol", "init", "--mcp").stdout.endswith(f"wrote {project / '.mcp.json'}\n")
    assert (project / ".mcp.json").exists()


def test_the_savings_are_counted_for_our_plan_and_for_ones_own(heimdall: Run, project: Path) -> None:
    assert "tokens" in heimdall("protocol", "demo", "--keep", "counted").stdout
    assert list((project / "counted").iterdir())
    (project / "PLAN.md").write_text("# Plan\n\n## Rules\nBe kind.\n\n## One\nDo one.\n\n## Two\nDo two.\n")
    assert heimdall("protocol", "demo", "--plan", "PLAN.md").stdout.startswith("v1 orchestration (briefing 2 spawns")
    assert heimdall("protocol", "demo", "--plan", "NONE.md").returncode == 1
    for words in ([], ["init", "x"], ["demo", "x"], ["demo", "--plan", "PLAN.md", "--keep", "d"], ["log", "1", "2"]):
        assert heimdall("protocol", *words).returncode == 2, words
