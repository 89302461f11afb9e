"""The table in docs/explanation/safety.md: each promise names who enforces it, what Landlock does, and its tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "safety.md"


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_every_promise_says_who_enforces_it_what_landlock_does_and_what_shows_it() -> None:
    assert len(rows()) > 15
    assert [row for row in rows() if len(row) != 4 or not all(row)] == []


def test_every_test_that_is_named_exists() -> None:
    for promise, *_, named in rows():
        place = ROOT / "tests"
        found = re.findall(r"`([\w/]+\.py)`", named)
        assert found, promise
        for name in found:  # a bare name is in the directory of the one before it, or in that of the sandbox
            path = ROOT / name if "/" in name else place / name
            if not path.exists():
                path = ROOT / "tests" / "io" / "sandbox" / name
            assert path.exists(), (promise, name)
            place = path.parent
