"""Terminals of orders on any node, found by the name that they have there.

A name that this machine does not know is looked for in the fleet: a local socket leads to the terminal there, so that
watching it and typing into it works as for a local one.
"""

import asyncio
import shutil
import tempfile

from treadle.errors import NotFound, TreadleError
from treadle.fleet import client
from treadle.fleet.run.terminal.forwarding import Carried, What, place_of
from treadle.serve.fleet_link import FleetLink
from treadle.terminal.places import Place, find

PREFIX, SHELL = "fleet-", "-shell"
OPEN_MAX = 200


class TerminalFinder:
    def __init__(self, terminals: str, fleet: FleetLink) -> None:
        self.terminals = terminals
        self.fleet = fleet
        self._directory = ""
        self._open: dict[str, tuple[Place, asyncio.Server]] = {}
        self._opening = asyncio.Lock()
        """One socket for each name: a second request closes the first one's and takes its place, never both at once."""

    async def find(self, name: str) -> Place:
        """The terminal of this name: one of this machine, or one of an order."""
        try:
            return find(self.terminals, name)
        except NotFound:
            if name in self._open:
                return self._open[name][0]
            # Only an explicit request starts a shell; looking at one never does.
            if not name.startswith(PREFIX) or name.endswith(SHELL) or self.fleet.bus is None:
                raise
        return await self.open(name.removeprefix(PREFIX), "agent", "")

    async def open(self, order: str, what: What, by: str) -> Place:
        """A local socket that leads to the order's own terminal (`agent`), or to a shell in its worktree (`shell`)."""
        name = place_of(order, what).id
        bus = self.fleet.require_bus()
        async with self._opening:
            found = await client.get_order(bus, order)
            node = found.node or (found.attempts[-1].node if found.attempts else "")
            if not node:
                raise NotFound(f"the order {order} was on no node yet: it is {found.state}")
            carried = Carried(bus, node, order, what, by)
            try:
                await carried.try_once()
            except TreadleError as error:
                raise NotFound(error.message, hint="its node may have put its worktree away") from None
            if name in self._open:
                self._open.pop(name)[1].close()
            while len(self._open) >= OPEN_MAX:
                self._open.pop(next(iter(self._open)))[1].close()
            self._directory = self._directory or tempfile.mkdtemp(prefix="tw-")
            place = Place(self._directory, name)
            self._open[name] = (place, await asyncio.start_unix_server(carried.carry, place.sock))
            return place

    def close(self) -> None:
        for _, serving in self._open.values():
            serving.close()
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
