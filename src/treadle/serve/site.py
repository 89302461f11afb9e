"""What everything that answers requests shares: the fleet, the terminals, tokens, and who is connected."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Coroutine
from typing import Any

from starlette.websockets import WebSocket

from treadle.errors import NotFound, TreadleError
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.run.terminals import Carried, What, place_of
from treadle.io.tasks import start_held
from treadle.serve.api.board import Board
from treadle.serve.fleet_link import FleetLink
from treadle.serve.tokens import Tokens
from treadle.terminal.places import Place, default_directory, find
from treadle.terminal.viewers.live import Screens

# Terminals of orders on any node, found by the name that they have there.
#
# A name that this machine does not know is looked for in the fleet: a local socket leads to the terminal there, so
# that watching it and typing into it works as for a local one.

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
                raise NotFound(f"the order {order} has not run on a node yet: it is {found.state}")
            carried = Carried(bus, node, order, what, by)
            try:
                await carried.try_once()
            except TreadleError as error:
                raise NotFound(error.message, hint="its node may have removed its worktree") from None
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


class Site:
    """`address` is how browsers reach it: `https://fleet.example`."""

    def __init__(self, address: str, terminals: str, tokens: Tokens) -> None:
        self.address = address
        self.terminals = terminals or default_directory()
        self.tokens = tokens
        self.user = client.me()
        self.boot = secrets.token_hex(8)
        self.fleet = FleetLink()
        self.board = Board(self.fleet)
        self.order_terminals = TerminalFinder(self.terminals, self.fleet)
        self.screens = Screens(self.order_terminals.find)
        self.tabs: set[WebSocket] = set()
        self.streams = 0
        self.size_holders: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        start_held(self._tasks, work)

    async def close(self) -> None:
        await tasks.end(list(self._tasks))
        await self.board.close()
        await self.fleet.close()
        self.screens.close()
        self.order_terminals.close()

    async def cut_off(self, device: str) -> None:
        """Close everything that a device with a revoked token has open."""
        for socket in list(self.tabs):
            if socket.scope["device"].id == device:
                await socket.close(4401, "this token was taken back")
