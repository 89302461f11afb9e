from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.support import Stage
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
