"""`treadle replay`: what was recorded."""

import sys
import time
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from treadle.cli.terminal import start
from treadle.terminal.sequences import RESET

CAST = """{"version": 3}
[2.0, "o", "one\\r\\n"]
[6.0, "o", "two\\r\\n"]
[0.0, "x", "5"]
"""


def test_replay_plays_what_was_recorded_and_ends_with_its_code(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "x", "--record", "x.cast", "--", "sh", "-c", "echo recorded; sleep 0.2; exit 6")
    shell("wait", "x", "--exit", code=6)
    assert shell("replay", str(tmp_path / "x.cast"), "--speed", "100", code=6) == "recorded\n"


@pytest.mark.parametrize(
    ("options", "pauses"),
    [
        ((), [2.0, 6.0]),
        (("--speed", "4"), [0.5, 1.5]),
        (("--idle-limit", "3"), [2.0, 3.0]),
        (("--idle-limit", "0"), [0.0, 0.0]),
    ],
)
def test_it_pauses_as_the_program_did_or_as_is_said(
    tmp_path: Path,
    options: tuple[str, ...],
    pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "c").write_text(CAST)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert start.replay_command([str(tmp_path / "c"), *options]) == 5
    assert slept == pauses and capsys.readouterr().out == "one\r\ntwo\r\n"


def test_a_terminal_is_given_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c").write_text(CAST)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert start.replay_command([str(tmp_path / "c"), "--idle-limit", "0"]) == 5
    assert capsys.readouterr().out == f"one\r\ntwo\r\n{RESET.decode()}"
