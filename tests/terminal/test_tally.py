"""The counts of a soak that is run in pieces."""

from pathlib import Path
from typing import Any

import pytest

from tests.terminal.tally import Tally


def test_a_soak_goes_on_where_it_was_stopped_and_its_counts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []

    def block(seed: int) -> dict[str, Any]:
        seeds.append(seed)
        met = {"sends": 4, "dialogs": 1, "stops": 2, "codes": {"--enter: 0": 3, "--wait: 3": 1}}
        return {**met, "violations": ["joined"] if seed == 2 else []}

    def stopped(seed: int) -> dict[str, Any]:
        monkeypatch.setattr(tally, "until", 0.0)
        return block(seed)

    tally = Tally("t", tmp_path)
    assert tally.fill(10, stopped).splitlines()[-1] == "4 sends, 0 violations; 6 are left, and the next run goes on"
    assert Tally("t", tmp_path).fill(10, block).splitlines() == [
        "joined",
        "--enter: 0 x9, --wait: 3 x3",
        "3 dialogs, 6 stops",
        "12 sends, 1 violations",
    ]
    assert seeds == [1, 2, 3]
