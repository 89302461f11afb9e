"""What all tests share: a private state directory, and the rule that in CI nothing may be skipped."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.io.trees import mark as mark

# The same examples every time, so that a run tells of the change it was made for; others where they are asked for.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("TREADLE_TESTS_RANDOM"),
)
settings.load_profile("default")

# A shell starts what it puts in the background with SIGINT ignored, and all that we start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test touches the person's own state, settings or keys."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TREADLE_HOME", str(home / "treadle"))
    for name in list(os.environ):
        if name.endswith("_API_KEY") or (
            name.startswith(("TREADLE_", "HEDDLE_", "HEIMDALL_")) and name != "TREADLE_HOME"
        ):
            if name != "TREADLE_TESTS_NO_SKIP":
                monkeypatch.delenv(name)
    yield home


def need(program: str) -> str:
    """The path of a system program, or skip this test and say why."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs the program {program!r}")
    return found


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception):
        if os.environ.get("TREADLE_TESTS_NO_SKIP"):
            pytest.fail(f"{item.nodeid} may not be skipped here: {call.excinfo.value}", pytrace=False)
