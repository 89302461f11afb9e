"""Ten thousand random schedules, two processes at a time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.terminal.test_schedules import run_schedules

TOTAL, BLOCK = 10_000, 250


def test_ten_thousand_schedules_without_a_violation(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda first: run_schedules(first, BLOCK, tmp_path / str(first), 1200), range(0, TOTAL, BLOCK))
        found = [line for text in runs for line in text.splitlines()]
    assert [line for line in found if line.startswith("schedule ")] == []
    assert sum(int(line.split()[0]) for line in found if line.endswith("violations")) == TOTAL
