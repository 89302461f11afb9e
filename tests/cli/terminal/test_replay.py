"""`treadle replay`: what was recorded."""

from pathlib import Path

from tests.cli.terminal.shells import Shell


def test_replay_plays_what_was_recorded_and_ends_with_its_code(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "x", "--record", "x.cast", "--", "sh", "-c", "echo recorded; sleep 0.2; exit 6")
    shell("wait", "x", "--exit", code=6)
    assert shell("replay", str(tmp_path / "x.cast"), "--speed", "100", code=6) == "recorded\n"
