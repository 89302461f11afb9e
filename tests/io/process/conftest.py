"""A warm parent."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import treadle
from tests.io.process.warmed import Warm
from tests.terminal.support import alive, until


@pytest.fixture
def warm(state_home: Path) -> Iterator[Warm]:
    found = Warm(state_home, Path(treadle.__file__).parents[1])
    yield found
    for pid in found.parents():
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
        until(lambda pid=pid: not alive(pid))
