"""What the warm parent does before it forks supervisors must leave no trace but in Python's caches."""

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from treadle.cli import LOADED
from treadle.io.process import table
from treadle.terminal.clients import Clients
from treadle.terminal.lock import Lock
from treadle.terminal.rehearsal import TIMES, rehearse
from treadle.terminal.settings import child_environment
from treadle.terminal.state import Watch
from treadle.terminal.supervisor import Supervisor


def test_a_rehearsal_leaves_no_file_child_or_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: Counter[Any] = Counter()
    monkeypatch.chdir(tmp_path)
    before = (set(os.listdir("/dev/fd")), signal.getsignal(signal.SIGCHLD), table.children())
    sys.setprofile(lambda frame, event, _: ran.update([frame.f_code]) if event == "call" else None)
    try:
        rehearse()
    finally:
        sys.setprofile(None)
    assert (set(os.listdir("/dev/fd")), signal.getsignal(signal.SIGCHLD), table.children()) == before
    assert list(tmp_path.iterdir()) == []
    # It has read what was shown, and so run what reads it.
    for run in (Lock.write, Clients.open, child_environment, Watch.output):
        assert ran[run.__code__] == TIMES, run
    assert ran[Supervisor.look.__code__] == 2 * TIMES


def test_where_nothing_can_be_written_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")
    rehearse()


def test_it_is_the_last_that_the_warm_parent_does_before_it_forks() -> None:
    assert LOADED[-1] == "treadle.terminal.rehearsal:rehearse"
