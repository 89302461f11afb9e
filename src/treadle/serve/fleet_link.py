"""The server's connection to the fleet of this machine, when there is one."""

import asyncio
import os
from collections.abc import Iterable
from typing import Any

from treadle.errors import TreadleError
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.find.index import OrderIndex
from treadle.fleet.find.searching import streams_of
from treadle.serve.envelope import RequestRefused
from treadle.serve.live.feed import Feed, OnState

AGAIN_SECONDS = 2.0


class FleetLink:
    def __init__(self) -> None:
        self.bus: Bus | None = None
        self.index: OrderIndex | None = None
        self.feed: Feed | None = None
        self.problem = "starting"
        """Why there is no fleet to ask."""

    def require_bus(self) -> Bus:
        if self.bus is None:
            raise RequestRefused(
                503, "no_fleet", f"there is no fleet to ask: {self.problem}", hint="`treadle fleet up`"
            )
        return self.bus

    def require_index(self) -> OrderIndex:
        self.require_bus()
        assert self.index is not None
        return self.index

    def state(self) -> dict[str, Any]:
        """`none`: in no fleet; `up`; `away`: its engine does not answer; `reading`: the index is being filled."""
        if self.bus is None:
            return {"state": "none" if self.problem.startswith("this machine belongs") else "away", "why": self.problem}
        if not self.bus.connected:
            return {"state": "away", "why": "the engine does not answer"}
        assert self.feed is not None
        return {"state": "up" if self.feed.caught_up.is_set() else "reading", "why": ""}

    async def join(self, listeners: Iterable[OnState]) -> None:
        """Connect to this machine's fleet as soon as there is one."""
        while True:
            try:
                fleet = places.load()
                role = "submit" if "submit" in fleet.users else fleet.widest()
                bus = await Bus.connect(fleet.address(role), name="treadle serve")
                try:
                    index = await asyncio.to_thread(
                        OrderIndex, os.path.join(places.inside(), "index.sqlite"), await streams_of(bus)
                    )
                except BaseException:
                    await bus.close()
                    raise
                self.feed = Feed(bus, index)
                self.feed.on_state.update(listeners)
                self.bus, self.index, self.problem = bus, index, ""
                self.feed.start()
                return
            except TreadleError as error:
                self.problem = str(error)
            await asyncio.sleep(AGAIN_SECONDS)

    async def close(self) -> None:
        if self.feed is not None:
            await self.feed.close()
        if self.bus is not None:
            await self.bus.close()
        if self.index is not None:
            self.index.close()
