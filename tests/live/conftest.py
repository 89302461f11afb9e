"""`make test-agents AGENT=codex,kimi PART=contract` runs a part: of these agents, of this file."""

import os
from collections.abc import Generator

import pytest

from tests.drivers.programs import PROGRAMS
from tests.live.shown import keep, shown_by


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = {name for name in os.environ.get("TEST_AGENTS", "").split(",") if name}
    if not chosen:
        return
    if unknown := chosen - PROGRAMS.keys() - {"native"}:
        raise pytest.UsageError(f"there is no agent {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    left = [item for item in items if _agent(item) not in (None, *chosen)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    name = _agent(item)
    if report.when == "call" and name in PROGRAMS and isinstance(item, pytest.Function):
        params = item.callspec.params if hasattr(item, "callspec") else {}
        for ability in shown_by(item.originalname, params):
            keep(name, ability, report.passed)
    return report


def _agent(item: pytest.Item) -> str | None:
    """The agent that a test is about; None when it is about none, or several."""
    given = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    named = [value for value in given if isinstance(value, str) and (value in PROGRAMS or value == "native")]
    module = item.nodeid.partition("::")[0].rpartition("test_")[2].removesuffix(".py").partition("_")[0]
    return named[0] if named else module if module in PROGRAMS else None
