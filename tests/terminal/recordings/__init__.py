"""The recordings, read."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = ("claude-reports", "claude-title", "codex")


class Recording:
    def __init__(self, name: str) -> None:
        self.name = name
        self.data = (HERE / f"{name}.raw").read_bytes()
        body: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
        self.size = (body["cols"], body["rows"])
        self.reads: list[tuple[int, int]] = [tuple(read) for read in body["reads"]]
        self.moments: list[dict[str, Any]] = body["moments"]
        self.typed: list[dict[str, Any]] = body["typed"]


def load(name: str) -> Recording:
    return Recording(name)
