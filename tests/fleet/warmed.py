"""For rooms whose tests start many runners."""

import os
from pathlib import Path

import pytest

from treadle.io import paths


@pytest.fixture(autouse=True)
def warm_runners(nothing_left: None, warm_room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners are copies of a warm parent, as on a person's machine: here of one for all tests, so that what many of
    them load is loaded once."""
    os.mkdir(paths.state_dir(), 0o700)
    os.symlink(warm_room, os.path.join(paths.state_dir(), "warm"))
    monkeypatch.setenv("TREADLE_WARM", "600")
