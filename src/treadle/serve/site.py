"""What everything that answers requests shares: the fleet, the terminals, tokens, and who is connected."""

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any

from starlette.websockets import WebSocket

from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.io.within import start_held
from treadle.landing.merging import Merging
from treadle.serve.api.board import Board
from treadle.serve.api.order_terminals import TerminalFinder
from treadle.serve.fleet_link import FleetLink
from treadle.serve.tokens import Tokens
from treadle.terminal.live import Screens
from treadle.terminal.places import default_directory


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
        self.merges: dict[str, Merging] = {}
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
