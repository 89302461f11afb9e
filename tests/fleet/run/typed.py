"""Orders in terminals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.terminals import Carried, What
from treadle.terminal.client import Client


@asynccontextmanager
async def carried(bus: Bus, order: str, what: What, path: Path) -> AsyncIterator[None]:
    made = Carried(bus, "n1", order, what, "ana")
    serving = await asyncio.start_unix_server(made.carry, path)
    async with serving:
        yield


def type_in(path: Path, text: str) -> None:
    with Client(str(path), timeout=30.0) as terminal:
        terminal.input(text.encode())
        terminal.status()


async def until_there(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.05)
