"""What all tests share: a private state directory, and the rule that in CI nothing may be skipped."""

import gc
import itertools
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.io.process.trees import mark as mark
from tests.outside import OUTSIDE
from treadle.io.process import programs

# The gate tries the same examples every time; `make soak` looks for new ones.
PATIENT = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", PATIENT, derandomize=True)
settings.register_profile("new", PATIENT, max_examples=1000)
settings.load_profile("same")

# A shell ignores SIGINT for what it puts in the background, `nohup` ignores SIGHUP; all that we start would inherit it.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
os.umask(0o022)

# What a machine or a person has set is nothing to test with: keys, models, shells, pagers, languages, time zones.
KEPT = (
    "PATH",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "UPDATE_DOCS",
    "UPDATE_GOLDEN",
    "TESTS_NO_SKIP",
    "RECORD_AGENTS",
    "TEST_AGENTS",
    "PICTURES",
    "TESTS_FORKED",
)
for variable in OUTSIDE:
    if variable not in KEPT and not variable.startswith(("PYTEST_", "COV", "SOAK_")):
        os.environ.pop(variable, None)
time.tzset()
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"  # a machine's git may have filters, hooks and templates for every repository
if len(os.environ.get("TMPDIR", "")) > 20 and os.access("/tmp", os.W_OK):
    del os.environ["TMPDIR"]  # a socket's path has room for 107 bytes
    tempfile.tempdir = None


# pytest rewrites the assertions of 700 files, which takes longer than to load them: also where a machine asks Python
# to keep no compiled files.
sys.dont_write_bytecode = False
HOMES = itertools.count()
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
# All that is loaded stays until the end: the collector would go through it again and again, which takes longer than
# loading. It is on while tests run, and looks only at what they make.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test touches the person's own state and settings."""
    homes = tmp_path_factory.getbasetemp() / "h"  # `mktemp` looks at all that are there, more with each test
    homes.mkdir(exist_ok=True)
    home = homes / str(next(HOMES))
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TREADLE_HOME", str(home / "treadle"))
    monkeypatch.setenv("TREADLE_WARM", "0")  # a warm parent would outlive the test
    monkeypatch.setenv("TREADLE_RETRY_SECONDS", "4")  # a person waits for minutes
    # What a program of ours sets for the rest of its process, a test in this one sets for itself alone.
    monkeypatch.setattr(programs, "_distrusted", set())
    log = logging.getLogger("treadle")
    level, handlers = log.level, list(log.handlers)
    yield home
    log.propagate, log.handlers[:] = True, handlers
    log.setLevel(level)


NO_KERNEL = "this kernel has no"
"""Such a test may be skipped everywhere: no package brings what it needs."""


def need(program: str) -> str:
    """The path of a system program, or skip this test and say why."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs the program {program!r}")
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _not_skipped((yield))


def _not_skipped(report: Report) -> Report:
    if report.skipped and os.environ.get("TESTS_NO_SKIP"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        if NO_KERNEL in str(why):
            return report
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} may not be skipped here: {why}"
    return report
