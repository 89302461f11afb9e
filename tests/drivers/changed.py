"""What a new recording changes: the events of the old one and of the new one, compared. `make record-agents` prints it.

python -m tests.drivers.changed [AGENT ...]
"""

import asyncio
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tests.drivers.scenarios import NAMED, Scenario, play
from tests.drivers.test_session import RECORDED, UNHURRIED, replayed
from treadle.drivers.card import Card
from treadle.events import AnyEvent, TextDelta, ThinkingDelta

HERE = Path(__file__).parent
PLAIN = {"resumed": "[[hello]] once more", "subagent": "[[delegate]]"}
"""Recordings of other tests, with their prompt."""
PASSING = ("seq", "ts", "turn", "raw", "duration_ms", "request", "deadline")
"""Fields that differ from run to run."""


def lines(events: list[AnyEvent]) -> list[str]:
    """One line for each event; pieces of one text are one line."""
    found: list[str] = []
    streaming: Any = None
    for event in events:
        kind = type(event).__name__
        if isinstance(event, TextDelta | ThinkingDelta):
            if streaming == (kind, event.parent):
                continue
            streaming = (kind, event.parent)
            found.append(f"{kind}(parent={event.parent})")
            continue
        streaming = None
        told = {name: getattr(event, name) for name in event.__struct_fields__ if name not in PASSING}
        known = {name: value for name, value in told.items() if value not in (None, "", (), 0, False)}
        found.append(f"{kind}{msgspec.json.encode(known).decode()}")
    return found


async def events(card: Card, scenario: str, recording: Path) -> list[str]:
    """What our driver makes of a recording. One that it no longer follows ends in an error."""
    given = NAMED.get(scenario) or Scenario(scenario, (PLAIN[scenario],), lambda played: None)
    more = {"resume": "the-old-one"} if scenario == "resumed" else {}
    with tempfile.TemporaryDirectory() as work:
        try:
            async with play(replayed(card, str(recording), patience=UNHURRIED), given, Path(work), **more) as played:
                return [line.replace(work, "/w") for line in lines(played.events)]
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]


async def compared(card: Card, scenario: str, old: Path, new: Path) -> list[str]:
    """The difference as unified lines; empty when the events are the same."""
    before, after = await events(card, scenario, old), await events(card, scenario, new)
    name = f"{card.name}/{scenario}"
    return [*difflib.unified_diff(before, after, f"{name} (before)", f"{name} (now)", lineterm="", n=1)]


async def main(chosen: list[str]) -> None:
    told = 0
    for card in RECORDED.values():
        for new in sorted((HERE / card.name / "recordings").glob("*.jsonl")):
            if chosen and card.name not in chosen or new.stem not in {*NAMED, *PLAIN}:
                continue
            kept = subprocess.run(["git", "show", f"HEAD:./{new.name}"], cwd=new.parent, capture_output=True)
            if kept.returncode == 0 and kept.stdout == new.read_bytes():
                continue
            with tempfile.NamedTemporaryFile(suffix=".jsonl") as old:
                old.write(kept.stdout)
                old.flush()
                found = await compared(card, new.stem, Path(old.name), new) if kept.returncode == 0 else ["a new one"]
            told += bool(found)
            print(
                "\n".join([f"{card.name}/{new.stem}:", *found]) if found else f"{card.name}/{new.stem}: the same events"
            )
    print(f"{told} recordings have other events than before" if told else "no recording has other events than before")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
