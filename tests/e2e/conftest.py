"""Here the installed program itself is started, never a copy of a process that has loaded it."""

import pytest


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESTS_FORKED", raising=False)
