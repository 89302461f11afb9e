"""For rooms whose tests start many runners."""

import pytest


@pytest.fixture(autouse=True)
def warm_runners(nothing_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners are copies of a warm parent, as on a person's machine: what many of them load is loaded once."""
    monkeypatch.setenv("TREADLE_WARM", "60")
