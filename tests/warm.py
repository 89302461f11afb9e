"""A warm parent for the runs of a whole test file: each of them then starts in a tenth of the time."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.terminal.support import alive, until
from treadle.cli.warm import AGENT, PRELOAD
from treadle.io.process import warm


@contextmanager
def kept_warm(home: Path) -> Iterator[Path]:
    """Runs with this `TREADLE_HOME`, and with `TREADLE_WARM` set, start from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREADLE_HOME", str(home))
        patch.setenv("TREADLE_WARM", "600")
        warm.begin(AGENT, PRELOAD, 600)
    try:
        yield home
    finally:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TREADLE_HOME", str(home))
            for pid in warm.dismiss(AGENT):
                os.kill(pid, signal.SIGCONT)
                until(lambda pid=pid: not alive(pid))
