from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from tests.terminal.support import alive


@pytest.fixture
def shell(state_home: Path, tmp_path: Path) -> Iterator[Shell]:
    found = Shell(state_home, tmp_path)
    yield found
    for path in found.directory.glob("*.pid"):
        if alive(found.place(path.stem).pids()[0]):
            found("kill", path.stem, "--grace", "0", code=None)  # it may end by itself meanwhile
