"""Reads the recordings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in HERE.glob("*.raw")))
STARTS = tuple(name for name in NAMES if "-start" in name)
"""One of each agent, or two: with the dialogs at its start, and a prompt."""


class Recording:
    def __init__(self, name: str) -> None:
        self.name = name
        self.data = (HERE / f"{name}.raw").read_bytes()
        body: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
        self.agent: str = name.split("-")[0]
        self.size = (body["cols"], body["rows"])
        self.reads: list[tuple[int, int]] = [tuple(read) for read in body["reads"]]
        self.moments: list[dict[str, Any]] = body["moments"]
        self.typed: list[dict[str, Any]] = body["typed"]

    def parts(self) -> Iterator[tuple[int, bytes, list[dict[str, Any]]]]:
        """Each read as (milliseconds, bytes, the labelled moments before the next one)."""
        at = 0
        moments = list(self.moments)
        for now, upto in [(0, 0), *self.reads]:
            data, at = self.data[at:upto], upto
            due = []
            while moments and moments[0]["byte"] <= upto:
                due.append(moments.pop(0))
            yield now, data, due


def load(name: str) -> Recording:
    return Recording(name)
