from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.support import Stage


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory: Path = tmp_path_factory.mktemp("t")
    directory.chmod(0o700)
    stage = Stage(directory)
    yield stage
    stage.close()
