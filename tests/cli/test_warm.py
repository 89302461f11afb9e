"""Which commands are handed to a warm parent."""

import os
import signal
from pathlib import Path

import pytest

from tests.installed import treadle
from treadle.cli import DECLINED, run_copied, run_warm
from treadle.io import sockets


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *(
            ("attach", []),
            ("attach", ["--detach"]),
            ("run", ["cat"]),
            ("ls", ["--watch"]),
            ("status", ["x", "--watch"]),
        ),
        ("run", ["--worktree", "--detach", "cat"]),
    ],
)
def test_what_shows_something_for_long_or_makes_a_worktree_is_not_for_a_warm_parent(
    name: str, arguments: list[str], state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "600")
    assert run_warm(name, arguments) is None and not (state_home / "treadle" / "warm").exists()


def test_what_attaches_is_not_for_a_copy_and_everything_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_copied("run", ["cat"]) == DECLINED
    assert run_copied("ls", ["--json"]) == 0 and capsys.readouterr().out == "[]\n"


def test_a_terminal_is_started_by_a_warm_parent(state_home: Path, tmp_path: Path) -> None:
    """One that cannot load what it should load never serves, and every start would be slow without a word."""
    where = ("--socket-dir", str(tmp_path / "t"))
    env = {**os.environ, "TREADLE_WARM": "60"}
    assert treadle("run", *where, "--detach", "--id", "x", "sleep", "100", env=env, stdin=None).returncode == 0
    (address,) = (state_home / "treadle" / "warm").glob("*.sock")
    with sockets.connect(str(address), 10) as control:
        os.kill(sockets.peer_pid(control), signal.SIGTERM)
    assert treadle("kill", *where, "x", "--grace", "0").returncode == 0
