"""The index for a command: brought up to date with the engine, then queried. A running server feeds the same file."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from treadle.fleet.engine import places
from treadle.fleet.engine.bus import EVENTS, STATE, Bus, Entry
from treadle.fleet.engine.pull import Pull
from treadle.fleet.find.index import OrderIndex

KEYS = ("order.*", "spec.*", "ask.>", "answer.>")


@asynccontextmanager
async def up_to_date(bus: Bus) -> AsyncIterator[OrderIndex]:
    """The index of this machine's fleet, with everything that the engine had when it was opened."""
    path = os.path.join(places.inside(), "index.sqlite")
    index = await asyncio.to_thread(OrderIndex, path, await streams_of(bus))
    try:
        await _catch_up_state(bus, index)
        await _catch_up_events(bus, index)
        yield index
    finally:
        index.close()


async def streams_of(bus: Bus) -> str:
    """Identifies the streams of a fleet; streams that were removed and made again get another identity."""
    parts = []
    for stream in (STATE, EVENTS):
        info = await bus.api(f"STREAM.INFO.{stream}")
        parts.append(str(info.get("created", "")))
    return " ".join(parts)


def value_of(message: Any) -> bytes:
    """The value that a message of the state stream gives its key; empty when the key was removed."""
    removed = (message.headers or {}).get("KV-Operation")
    return b"" if removed else bytes(message.data)


async def _catch_up_state(bus: Bus, index: OrderIndex) -> None:
    pull = Pull(bus, STATE, filters=tuple(f"$KV.fleet.{key}" for key in KEYS), start=index.state_at, batch=1000)
    try:
        if pull.position > await bus.last_revision():
            return
        while messages := await pull.next(1.0):
            entries = [
                Entry(each.subject.removeprefix("$KV.fleet."), value_of(each), each.metadata.sequence.stream)
                for each in messages
            ]
            await asyncio.to_thread(index.take_state, entries)
            if messages[-1].metadata.num_pending == 0:
                return
    finally:
        await pull.close()


async def _catch_up_events(bus: Bus, index: OrderIndex) -> None:
    info = await bus.api(f"STREAM.INFO.{EVENTS}")
    pull = Pull(bus, EVENTS, filters=("fleet.ev.>",), start=index.events_at, batch=1000)
    try:
        if pull.position > int(info["state"]["last_seq"]):
            return
        while messages := await pull.next(1.0):
            plain = [(each.subject, each.metadata.sequence.stream, each.data) for each in messages]
            await asyncio.to_thread(index.take_events, plain)
            if messages[-1].metadata.num_pending == 0:
                return
    finally:
        await pull.close()
