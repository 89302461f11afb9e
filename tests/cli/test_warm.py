"""Which commands are handed to a warm parent."""

from pathlib import Path

import pytest

from treadle.cli import DECLINED, run_copied, run_warm


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
