"""Conversations written by hand for what no recording has. A real process plays them (`tests.stand_ins.replay`)."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from tests.drivers.changed import PASSING
from tests.drivers.scenarios import PATIENCE, Played, Scenario, check_always, go_through
from tests.drivers.test_session import UNHURRIED, replayed
from treadle.drivers.card import Card
from treadle.events import AnyEvent
from treadle.session import SessionSpec

WAITS, SAYS = "in", "out"
"""The agent waits until it is told this, or says it."""


def written(place: Path, *talk: tuple[str, Any]) -> str:
    place.write_text("".join(json.dumps({"dir": way, "line": line}) + "\n" for way, line in talk))
    return str(place)


def heard(noted: Path) -> list[Any]:
    """What the agent was told, in order."""
    return [entry["line"] for entry in map(json.loads, noted.read_text().splitlines()) if entry["dir"] == WAITS]


async def talked(
    card: Card, place: Path, spec: SessionSpec, scenario: Scenario, *talk: tuple[str, Any]
) -> tuple[Played, list[str], list[Any]]:
    """What was played, each event as a line, and what the agent was told. `/w` stands for the working directory."""
    noted = place / "noted"
    agent = replayed(card, written(place / "talk.jsonl", *talk), noted=noted, patience=UNHURRIED)
    async with asyncio.timeout(PATIENCE):
        session = await agent.open(spec)
        try:
            played = await go_through(session, scenario)
        finally:
            await session.close()
    check_always(played)
    cwd = str(spec.cwd)
    told = json.loads(json.dumps(heard(noted)).replace(cwd, "/w"))
    return played, [_line(event).replace(cwd, "/w") for event in played.events], told


def _line(event: AnyEvent) -> str:
    fields = msgspec.to_builtins(event)
    return json.dumps({name: value for name, value in fields.items() if name not in PASSING}, ensure_ascii=False)


def as_expected(events: list[str], place: Path) -> bool:
    """Whether the events are those in the file; with UPDATE_DOCS=1 it is written anew, to be read before it is kept."""
    if os.environ.get("UPDATE_DOCS"):
        place.write_text("".join(f"{line}\n" for line in events))
    assert events == place.read_text().splitlines()
    return True
