"""heimdall-protocol: the umbrella over the other commands, and the trail."""

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
    for wrong in ("x", "-1", "9" * 30):
        assert heimdall("protocol", "log", wrong).returncode == 2
