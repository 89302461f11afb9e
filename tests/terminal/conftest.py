import os
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.support import Desk, Stage
from tests.terminal.tmux import Tmux
from treadle.io.process.tree import WaitingReaper
from treadle.terminal import lock
from treadle.terminal.places import Place
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.supervisor import Supervisor


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory: Path = tmp_path_factory.mktemp("t")
    directory.chmod(0o700)
    stage = Stage(directory)
    yield stage
    stage.close()


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path)
    yield server
    server("kill-server")


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    """Makes a supervisor that has started nothing: what a program would draw is written to its terminal."""
    made: list[tuple[Supervisor, socket.socket]] = []

    def make(**more: Any) -> Supervisor:
        settings = TerminalSettings()
        settings.id, settings.directory, settings.workdir, settings.command = (
            f"x{len(made)}",
            str(tmp_path),
            "/",
            ["sh"],
        )
        settings.cols, settings.rows, settings.state_file = 80, 24, str(tmp_path / f"x{len(made)}.state")
        for name, value in more.items():
            setattr(settings, name, value)
        place = Place(str(tmp_path), settings.id)
        ours, theirs = socket.socketpair()
        supervisor = Supervisor(settings, place, lock.take(place), WaitingReaper(os.getpid(), ours))
        supervisor.lock.write(os.getpid())
        supervisor.clients.open()
        made.append((supervisor, theirs))
        ours.close()
        return supervisor

    yield make
    for supervisor, theirs in made:
        if not supervisor.done:
            supervisor.put_away()
        supervisor.history.close()
        supervisor.log.close()
        theirs.close()
        os.close(supervisor.pty.master)
        if supervisor.pty.slave >= 0:
            os.close(supervisor.pty.slave)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    desk = pyfuncitem.funcargs.get("desk")
    if not isinstance(desk, Desk):
        return (yield)
    with desk.used():
        return (yield)
