"""What was removed from a directory of terminals is made again, and what dead ones left is removed."""

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.terminal.support import Stage, connected, until
from tests.waiting import stop
from treadle.terminal.listing import repair
from treadle.terminal.places import Place


@contextmanager
def stopped(place: Place) -> Iterator[int]:
    """Its supervisor stands still, so that it does not look by itself first."""
    supervisor, _ = place.pids()
    stop(supervisor)
    try:
        yield supervisor
    finally:
        os.kill(supervisor, signal.SIGCONT)


def was_signalled(supervisor: int) -> bool:
    """Whether a signal to look waits for it."""
    lines = Path(f"/proc/{supervisor}/status").read_text().splitlines()
    (pending,) = [int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd:")]
    return bool(pending & 1 << signal.SIGUSR1 - 1)


def test_a_living_supervisor_makes_its_socket_again_and_is_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.terminal.listing.PATIENCE", 60.0)
    place = stage.start("cat")
    with ThreadPoolExecutor(1) as pool:
        with stopped(place) as supervisor:
            os.unlink(place.sock)
            repaired = pool.submit(repair, str(stage.directory))
            until(lambda: was_signalled(supervisor))
        assert repaired.result(60) == [f"{place.sock}: made again by process {supervisor}"]
    with connected(place) as client:
        assert client.status().alive


def test_one_that_does_not_answer_is_not_said_to_have_made_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.terminal.listing.PATIENCE", 0.0)
    place = stage.start("cat")
    with stopped(place) as supervisor:
        os.unlink(place.sock)
        assert repair(str(stage.directory)) == [f"{place.sock}: not yet made again by process {supervisor}"]
    until(lambda: os.path.exists(place.sock))


def test_a_socket_that_a_dead_one_left_is_removed_and_that_of_the_living_is_not(stage: Stage) -> None:
    living = stage.start("cat")
    gone = Place(str(stage.directory), "gone")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(gone.sock)
    assert repair(str(stage.directory)) == [f"{gone.sock}: removed, it was left by a dead supervisor"]
    assert os.path.exists(living.sock) and not os.path.exists(gone.sock)
    assert repair(str(stage.directory)) == []


def test_terminals_of_another_directory_are_left_alone(stage: Stage, tmp_path: Path) -> None:
    place = stage.start("cat")
    os.unlink(place.sock)
    assert repair(str(tmp_path)) == []
    until(lambda: os.path.exists(place.sock))
