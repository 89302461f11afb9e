from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.terminal.support import Desk, Stage
from tests.terminal.tmux import Tmux


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


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    desk = pyfuncitem.funcargs.get("desk")
    if not isinstance(desk, Desk):
        return (yield)
    with desk.used():
        return (yield)
