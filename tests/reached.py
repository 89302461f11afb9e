"""Which tests reach which line: a plugin for pytest that writes it down, and what reads it again.

    python -m pytest -p tests.reached --reached DIRECTORY       writes it down, in a file for each worker
    python -m pytest -p tests.reached --only FILE               runs the tests that a file names, in its order

What a test starts as another process is not seen.
"""

import json
import subprocess
import sys
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

import coverage
import pytest

TOP = Path(__file__).parent.parent
TESTS = TOP / "tests"
PACKAGE = TOP / "src" / "treadle"
FEWEST, MOST = 60, 400
"""So many tests at least are tried, however long they take, and so many at most."""
ENOUGH_SECONDS = 40.0
"""Tests that together took this long, when nothing was wrong, are enough for one fault."""
SLOW_SECONDS = 20.0
"""A test that takes longer is not run for one fault."""


class Reached:
    """Marks every line with the test that runs, and keeps how long each test took that passed."""

    def __init__(self, directory: Path, worker: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._times = directory / f"{worker}.json"
        self._cover = coverage.Coverage(data_file=str(directory / f"{worker}.coverage"), source=[str(PACKAGE)])
        self._cover.set_option("run:relative_files", True)
        self._cover.set_option("run:core", "ctrace")  # what Python's own monitoring sees has no contexts
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self._cover.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._cover.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._cover.stop()
        self._cover.save()
        passed = {name: round(spent, 4) for name, spent in self._seconds.items() if name not in self._failed}
        self._times.write_text(json.dumps(passed))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reached", type=Path, help="the directory to write into which test reaches which line")
    parser.addoption("--only", type=Path, help="a file that names the tests to run, one in a line, in order")


def pytest_configure(config: pytest.Config) -> None:
    directory = config.getoption("--reached")
    worker = getattr(config, "workerinput", {}).get("workerid")
    if directory and (worker or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(Reached(directory, worker or "alone"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only = config.getoption("--only")
    if only:
        place = {name: number for number, name in enumerate(only.read_text().splitlines())}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


class Reach:
    """What was written down, of all tests that passed."""

    def __init__(self, directory: Path) -> None:
        self._data = [coverage.CoverageData(str(path)) for path in sorted(directory.rglob("*.coverage"))]
        for data in self._data:
            data.read()
        self._seconds: dict[str, float] = {}
        for path in directory.rglob("*.json"):
            self._seconds.update(json.loads(path.read_text()))

    def reaching(self, module: Path, lines: range, function: range, name: str) -> list[str]:
        """Tests that reach one of these lines; where only loading the module does, those that reach the function."""
        tests = self._at(module, lines) or self._at(module, function)
        return self._quick(tests, module, name, FEWEST, ENOUGH_SECONDS)

    def around(self, room: str, module: Path, name: str, but: Collection[str]) -> list[str]:
        """Tests of a room and of whole programs, more of them if none is known to reach it."""
        folders = tuple(f"tests/{each}/" for each in (room, "e2e", "safety")) if room != "treadle" else ("tests/test_",)
        tests = {test for test in self._seconds if test.startswith(folders)}
        return self._quick(tests.difference(but), module, name, 0, ENOUGH_SECONDS * (1 if but else 4))

    def _at(self, module: Path, lines: range) -> set[str]:
        found: set[str] = set()
        for data in self._data:
            at = data.contexts_by_lineno(str(module.relative_to(TOP)))
            found.update(test for line in lines for test in at.get(line, ()))
        return found & self._seconds.keys()

    def _quick(self, tests: set[str], module: Path, name: str, fewest: int, enough: float) -> list[str]:
        """As many as are enough, the quickest first: tests of this module first, then what names the function."""
        spent, taken = 0.0, []
        for test in sorted(tests, key=lambda one: (_distance(one, module, name), self._seconds[one], one)):
            seconds = self._seconds[test]
            if len(taken) < MOST and seconds < SLOW_SECONDS and (spent < enough or len(taken) < fewest):
                spent += seconds
                taken.append(test)
        return sorted(taken, key=lambda one: self._seconds[one])


@cache
def _text(file: str) -> str:
    path = TOP / file
    return path.read_text() if path.exists() else ""


def _distance(test: str, module: Path, name: str) -> int:
    file = test.partition("::")[0]
    dotted = ".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts)
    if file.endswith(f"/test_{module.stem}.py") or dotted in _text(file):
        return 0
    return 1 if name.strip("_") in _text(file) else 2


def record(directory: Path, rooms: Iterable[str] | None, jobs: int) -> None:
    """Runs the tests of these rooms, or all, and writes down what they reach, unless that was done before."""
    for name in rooms or ["treadle", *sorted(path.name for path in TESTS.iterdir() if any(path.glob("**/test_*.py")))]:
        tests = sorted(TESTS.glob("test_*.py")) if name == "treadle" else [TESTS / name]
        if name in ("live", "soak") or (directory / name).exists() or not tests[0].exists():
            continue
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(jobs), "--dist", "worksteal"]
        argv += ["-p", "tests.reached", "--reached", str(directory / name), *(str(path) for path in tests)]
        print(f"{name}: which test reaches which line?", flush=True)
        subprocess.run(argv, cwd=TOP, stdout=subprocess.DEVNULL)
