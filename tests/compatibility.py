"""How many checks of each list pass against what others wrote: `make test-compatibility`.

Claude's SDKs drive us unchanged, scripts run as people publish them, clients of workers speak to ours. Each check is a
test; a file belongs to one list, and what does not pass, a skipped test included, is counted as not passed.
"""

import sys
from collections import Counter

import pytest

from tests.drivers.programs import NODE, fetch
from tests.live.test_claude_sdk import SDK

LISTS = {
    "Claude's Python SDK": ("tests/e2e/test_sdk_options.py", "tests/e2e/test_sdk_control.py"),
    "Claude's TypeScript SDK": ("tests/live/test_claude_sdk.py",),
    "scripts as people publish them": ("tests/e2e/test_scripts.py", "tests/e2e/test_prompt_tool.py"),
    "clients of workers": (
        *("tests/cli/test_worker_entry.py", "tests/e2e/test_worker_driver.py", "tests/e2e/test_worker_examples.py"),
        "tests/doors/worker/test_fixtures.py",
    ),
    "one-shot events and exit codes": (
        *("tests/cli/test_oneshot.py", "tests/doors/oneshot/test_run.py"),
        *("tests/doors/oneshot/test_verbose.py", "tests/doors/oneshot/test_headless.py"),
    ),
    "faults of model services": ("tests/agent/providers/test_hostile.py", "tests/agent/providers/test_failures.py"),
}
OF = {file: name for name, files in LISTS.items() for file in files}


class Counting:
    """Counts, by list, the tests that were to run and those that passed."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        passed = self.known.get(report.nodeid, True) and report.outcome == "passed"
        self.known[report.nodeid] = passed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        every, passed = Counter[str](), Counter[str]()
        for test, fine in self.known.items():
            every[OF[test.partition("::")[0]]] += 1
            passed[OF[test.partition("::")[0]]] += fine
        terminalreporter.section("compatibility")
        for name in LISTS:
            terminalreporter.write_line(f"{name:<32} {passed[name]:>4} of {every[name]}")


def main() -> int:
    fetch("node", NODE)  # here, because tests are given an environment of their own, in which npm may not find its way
    fetch("claude-sdk", SDK, "--omit=optional", "--ignore-scripts")
    counting = Counting()
    code = pytest.main(["-q", "-p", "no:cacheprovider", "--timeout=300", *sys.argv[1:], *OF], plugins=[counting])
    return int(code) or int(not all(counting.known.values()))


if __name__ == "__main__":
    sys.exit(main())
