"""Is each module covered by its own test file? Run by `make cover`, for all rooms or some: `make cover ROOMS=wire,io`.

The tests run once, with every line and branch marked with the test file that reached it; then each module is looked at
with the marks of its own file alone: `wire/worker/codec.py` with those of `tests/wire/worker/test_codec.py`. What
another file reaches does not count, because one who changes a module looks for its tests in one place.
"""

import io
import re
import sys
from pathlib import Path

import coverage
import pytest

TOP = Path(__file__).parent.parent
PACKAGE = TOP / "src" / "treadle"
HELD = ("wire", "policy", "sessions")
"""Rooms in which a module that is less covered fails the run; of the others, the figures are printed."""
LEAST = 90.0
"""Percent of lines and branches that each module's own tests reach."""
SMALL = 30
"""A module with fewer lines needs no test file of its own."""
ELSEWHERE = {
    # Fields with types and no decisions: what reads or writes them is tested where it is.
    "agent/messages.py": "agent/test_records.py",
    "agent/providers/base.py": "agent/providers/test_contract.py",
    "agent/tools/base.py": "agent/tools/test_registry.py",
    "confinement.py": "io/sandbox/test_start.py",
    "doors/oneshot/adaptable.py": "doors/oneshot/test_requests.py",
    "landing/forge/interface.py": "landing/forge/test_requested.py",
    "wire/a2a/records.py": "wire/a2a/test_versions.py",
    # Numbers and names: each is held by what uses it.
    "policy/credentials.py": "safety/test_credentials.py",
    "terminal/times.py": "terminal/test_state.py",
    # Sample conversations: one contract runs over those of all wires.
    **{
        f"testing/conversations/{name}.py": "wire/test_contract.py"
        for name in ("acp", "claude", "codex", "fleet", "mcp", "oneshot", "sidecar", "terminal", "worker")
    },
    # Four formats of one thing, side by side.
    **{
        f"testing/formats/{name}.py": "testing/formats/test_formats.py"
        for name in ("anthropic", "chat", "gemini", "responses")
    },
    # Only a whole conversation with the agent shows what these do.
    "drivers/a2a/driver.py": "drivers/a2a/test_session.py",
    "drivers/codex/driver.py": "drivers/codex/test_session.py",
    # A program of its own that joins a sandbox: seen from outside of it.
    "io/sandbox/keeping.py": "io/sandbox/test_running.py",
    # Only a whole goal with its fleet shows what it does.
    "cli/fleet/demo_goal.py": "cli/fleet/test_demo.py",
}
"""Modules without a test file of their own, and the file that tests them."""


class Marking:
    """A plugin for pytest that says which test file runs."""

    def __init__(self, cover: coverage.Coverage) -> None:
        self._cover = cover

    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        self._cover.switch_context(str(TOP / location[0]))


def rooms() -> tuple[str, ...]:
    """Every folder of the package, and `.` for the modules beside them."""
    found = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    return (".", *found)


def modules(parts: tuple[str, ...]) -> list[Path]:
    found = [
        path for part in parts for path in (PACKAGE.glob("*.py") if part == "." else (PACKAGE / part).rglob("*.py"))
    ]
    return sorted(path for path in found if path.name not in ("__init__.py", "__main__.py"))


def tests_of(module: Path) -> Path:
    """The module's own test file, or the one that `ELSEWHERE` names."""
    below = module.relative_to(PACKAGE)
    other = ELSEWHERE.get(str(below))
    return TOP / "tests" / (other or below.parent / f"test_{below.name}")


def without_tests() -> list[str]:
    """The modules that are large enough for a test file of their own and neither have one nor say where it is."""
    found = [path for path in modules(rooms()) if path.read_bytes().count(b"\n") >= SMALL]
    return [str(path.relative_to(PACKAGE)) for path in found if not tests_of(path).exists()]


def measured(cover: coverage.Coverage, module: Path) -> tuple[float, str]:
    """The percentage, and which lines and branches are missing."""
    own = re.escape(str(tests_of(module)))
    said = io.StringIO()
    percent = cover.report(morfs=[str(module)], contexts=["^$", f"^{own}$"], show_missing=True, file=said)
    return percent, said.getvalue().splitlines()[2].partition("%")[2].strip()


def main() -> int:
    parts = tuple(sys.argv[1:]) or rooms()
    cover = coverage.Coverage(data_file=None, branch=True, source=[str(PACKAGE / part) for part in parts])
    cover.start()
    run = ["-q", "-p", "no:cacheprovider", *(str(path) for path in tests_of_rooms(parts))]
    code = pytest.main(run, plugins=[Marking(cover)])
    cover.stop()
    if code != 0:
        return int(code)
    thin: dict[str, int] = {}
    for module in modules(parts):
        name = module.relative_to(PACKAGE)
        part = name.parts[0] if len(name.parts) > 1 else "."
        if not tests_of(module).exists():
            if module.read_bytes().count(b"\n") >= SMALL:
                print(f"  --   {name}: no {tests_of(module).relative_to(TOP)}")
                thin[part] = thin.get(part, 0) + 1
            continue
        percent, missing = measured(cover, module)
        thin[part] = thin.get(part, 0) + (percent < LEAST)
        print(f"{percent:6.1f} {name}{'  missing ' + missing if missing else ''}")
    for part in parts:
        count = len(modules((part,)))
        print(
            f"{part}: {thin.get(part, 0)} of {count} modules are less than {LEAST:g} % covered by their own test file"
        )
    return 1 if any(thin.get(part) for part in HELD) else 0


def tests_of_rooms(parts: tuple[str, ...]) -> list[Path]:
    """The test files of these rooms; what a room's own tests do in other processes is not seen."""
    found: list[Path] = []
    for part in parts:
        found += sorted((TOP / "tests").glob("test_*.py")) if part == "." else [TOP / "tests" / part]
    return [path for path in found if path.exists()]


if __name__ == "__main__":
    sys.exit(main())
