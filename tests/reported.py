"""Tells `tests/run.py` what becomes of each test while pytest runs: a line of JSON for each, in the file that it names.

Each line is written with one call to a file that no child inherits, so what a killed pytest has told stays told.
"""

import json
import os

import pytest


class Reporter:
    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def tell(self, **facts: str | float) -> None:
        os.write(self.file, json.dumps(facts).encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration, "text": _text(report)}
        self.tell(**facts, ended=report.when == "teardown")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.tell(test=report.nodeid, outcome=report.outcome, seconds=0.0, text=_text(report), ended=True)

    def pytest_unconfigure(self) -> None:
        times = os.times()
        self.tell(cpu=times.user + times.system + times.children_user + times.children_system)


def _text(report: pytest.TestReport | pytest.CollectReport) -> str:
    """How it failed, and what it had printed."""
    if not report.failed:
        return ""
    return "\n".join([report.longreprtext, *(f"--- {title}\n{text.rstrip()}" for title, text in report.sections)])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report-to", required=True, metavar="FILE", help="what becomes of each test, for tests/run.py")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reporter(config.getoption("--report-to")))
