"""Counts that add up over several runs of one version: a soak that was stopped goes on where it was.

One JSON line per block of sends, in `build/soak/`, with what went wrong in it. A changed terminal begins anew.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle.io.files import append_line

ROOT = Path(__file__).parents[2]
JUDGED = ("terminal", "cli/terminal", "wire/terminal", "io/process")
"""What the figures are about: when one of these changes, earlier ones no longer count."""


class Tally:
    def __init__(self, name: str, directory: Path | None = None) -> None:
        where = directory or ROOT / "build" / "soak"
        where.mkdir(parents=True, exist_ok=True)
        self.path = where / f"{name}-{version()}.jsonl"
        self.until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "inf"))

    def blocks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def fill(self, sends: int, block: Callable[[int], dict[str, Any]]) -> str:
        """Play blocks, each with its own seed, until so many sends are counted or the time is over. Returns what all
        of them together came to."""
        while sum(found["sends"] for found in self.blocks()) < sends and time.monotonic() < self.until:
            found = block(len(self.blocks()) + 1)
            append_line(str(self.path), json.dumps(found).encode())
        return self.sum(sends)

    def sum(self, wanted: int) -> str:
        codes: Counter[str] = Counter()
        for block in self.blocks():
            codes.update(block["codes"])
        wrong = [line for block in self.blocks() for line in block["violations"]]
        count, dialogs, stops = (sum(block[what] for block in self.blocks()) for what in ("sends", "dialogs", "stops"))
        left = "" if count >= wanted else f"; {wanted - count} are left, and the next run goes on"
        shown = ", ".join(f"{how} x{number}" for how, number in sorted(codes.items()))
        return "\n".join(
            [*wrong, shown, f"{dialogs} dialogs, {stops} stops", f"{count} sends, {len(wrong)} violations{left}"]
        )


def version() -> str:
    """Which state of the code is judged."""
    found = hashlib.sha256()
    for folder in JUDGED:
        for path in sorted((ROOT / "src" / "treadle" / folder).rglob("*")):
            if path.suffix in (".py", ".toml"):
                found.update(path.read_bytes())
    return found.hexdigest()[:12]
