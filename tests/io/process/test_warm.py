"""A warm parent does exactly what the command itself would have done, and nothing depends on it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.io.process.warmed import ASK, Warm
from tests.terminal.support import alive, until
from tests.waiting import stop


def test_without_one_and_unless_told_to_start_it_nothing_is_done(warm: Warm) -> None:
    assert warm.ask("echo done").stdout == "None\n"
    assert warm.parents() == []


def test_whoever_asks_for_none_gets_none(warm: Warm) -> None:
    assert warm.ask("echo done", "start", seconds="0").stdout == "None\n"
    assert warm.parents() == []


def test_when_it_was_killed_the_next_starts_another(warm: Warm) -> None:
    assert warm.ask("true", "start").stdout == "0\n"
    (before,) = warm.parents()
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(before))
    assert warm.ask("true").stdout == "None\n"
    assert warm.ask("true", "start").stdout == "0\n"
    assert before not in warm.parents() and len(warm.parents()) == 1


def test_one_that_does_not_answer_is_not_waited_for_and_does_nothing_later(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warm.ask("true", "start").stdout == "0\n"
    (pid,) = warm.parents()
    stop(pid)
    late = tmp_path / "late"
    monkeypatch.setenv("PATIENCE", "0.5")
    assert warm.ask(f"echo x > {late}").stdout == "None\n"
    monkeypatch.delenv("PATIENCE")
    os.kill(pid, signal.SIGCONT)
    assert warm.ask("true").stdout == "0\n"  # it is served after the other
    assert not late.exists()


def test_of_two_that_start_one_at_once_both_are_served(warm: Warm) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    command = [sys.executable, "-c", ASK, "true", "start"]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate(timeout=60)[0] for each in both] == ["0\n", "0\n"]
    until(lambda: len(warm.parents()) == 1)


def test_a_process_with_another_scheduling_policy_has_another_one(state_home: Path) -> None:
    asks = "import os, sys; os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0)); "
    asks += "from treadle.io.process import warm; print(warm.address())"
    found = [
        subprocess.run([sys.executable, "-c", asks, str(policy)], check=True, capture_output=True, text=True).stdout
        for policy in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_OTHER)
    ]
    assert found[0] == found[2] != found[1]
