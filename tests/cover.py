"""Is each module of wire, policy and sessions covered by its own test file? Run by `make cover`.

The tests run once, with every line and branch marked with the test file that reached it; then each module is looked at
with the marks of its own file alone: `wire/worker/codec.py` with those of `tests/wire/worker/test_codec.py`. What
another file reaches does not count, because whoever changes a module looks for its tests in one place.
"""

import io
import re
import sys
from pathlib import Path

import coverage
import pytest

TOP = Path(__file__).parent.parent
PARTS = ("wire", "policy", "sessions")
LEAST = 90.0
"""Percent of lines and branches that each module's own tests reach."""


class Marking:
    """A plugin for pytest that says which test file runs."""

    def __init__(self, cover: coverage.Coverage) -> None:
        self._cover = cover

    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        self._cover.switch_context(str(TOP / location[0]))


def modules() -> list[Path]:
    found = (path for part in PARTS for path in (TOP / "src" / "treadle" / part).rglob("*.py"))
    return sorted(path for path in found if path.name != "__init__.py")


def tests_of(module: Path) -> Path:
    below = module.relative_to(TOP / "src" / "treadle")
    return TOP / "tests" / below.parent / f"test_{below.name}"


def measured(cover: coverage.Coverage, module: Path) -> tuple[float, str]:
    """The percentage, and which lines and branches are missing."""
    own = re.escape(str(tests_of(module)))
    said = io.StringIO()
    percent = cover.report(morfs=[str(module)], contexts=["^$", f"^{own}$"], show_missing=True, file=said)
    return percent, said.getvalue().splitlines()[2].partition("%")[2].strip()


def main() -> int:
    cover = coverage.Coverage(
        data_file=None, branch=True, source=[str(TOP / "src" / "treadle" / part) for part in PARTS]
    )
    cover.start()
    run = ["-q", "-p", "no:cacheprovider", *(str(TOP / "tests" / part) for part in PARTS)]
    code = pytest.main(run, plugins=[Marking(cover)])
    cover.stop()
    if code != 0:
        return int(code)
    thin = 0
    for module in modules():
        name = module.relative_to(TOP / "src" / "treadle")
        if not tests_of(module).exists():
            print(f"  --   {name}: no {tests_of(module).relative_to(TOP)}")
            thin += 1
            continue
        percent, missing = measured(cover, module)
        thin += percent < LEAST
        print(f"{percent:6.1f} {name}{'  missing ' + missing if missing else ''}")
    print(f"{thin} of {len(modules())} modules are less than {LEAST:g} % covered by their own test file")
    return 1 if thin else 0


if __name__ == "__main__":
    sys.exit(main())
