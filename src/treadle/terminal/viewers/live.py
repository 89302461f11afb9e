"""Terminal screens that many can watch: one connection and one emulator for each screen that is watched.

A watcher gets the whole screen once and then the rows that changed, always as they are now: a slow one misses states
in between but never falls behind. The program never waits for a watcher.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from treadle.errors import NotFound, TreadleError, Unsupported
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.terminal.viewers.screen import Screen, story
from treadle.wire.terminal import frames as wire

LOOKS_SECONDS = 0.5
"""Seconds between two checks of rows with unchanged text for a change of colour."""
RELOAD_PAUSE = 0.5
"""Seconds before a screen is rebuilt, so that a program that writes without end does not keep us at it."""
LINGER = 10.0
"""Seconds that a terminal is followed after its last watcher has left."""


class LiveScreen:
    """A terminal that is being followed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.watchers = 0
        self.left_at = time.monotonic()
        self.state: dict[str, Any] = {}
        self.ended: int | None = None
        self.problem = ""
        self.changed = asyncio.Event()
        self._screen: Screen | None = None
        self._client: Client | None = None
        self._dirty = True
        self._lines: list[str] = []
        self._rows: list[Any] = []
        self._versions: list[int] = []
        self._version = 0
        self._looked = 0.0
        self._reloading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._screen, self._client = await self._connected()
        self._dirty, self._lines, self._versions = True, [], []
        if self._client is not None:
            for message in self._client.waiting():
                self._take(message)
            self._client.sock.setblocking(False)
            asyncio.get_running_loop().add_reader(self._client.sock, self._on_data)

    async def _connected(self) -> tuple[Screen, Client | None]:
        """Connects in a thread, which runs on when no one waits for it any more; its connection is then closed."""
        # Under `handing` it is decided once who closes the connection: the thread, if the waiter has left before it
        # was made, else the waiter.
        handing, made, left = threading.Lock(), list[tuple[Screen, Client | None]](), threading.Event()

        def connect() -> None:
            found = self._connect()
            with handing:
                if not left.is_set():
                    made.append(found)
                    return
            _let_go(*found)

        try:
            await asyncio.to_thread(connect)
        except asyncio.CancelledError:
            with handing:
                left.set()
            for found in made:
                _let_go(*found)
            raise
        return made[0]

    def _connect(self) -> tuple[Screen, Client | None]:
        past = story(self.place)
        screen = past.screen()
        try:
            client = Client(self.place.sock)
        except NotFound:  # it has ended: this is its last screen
            self.ended = self.ended or 0
            return screen, None
        try:
            if past.end is None:
                raise Unsupported(f"the supervisor of {self.place.id} supports only the plain protocol")
            wants = wire.READ_ONLY | wire.WANT_GAPS | wire.WANT_SIZES | wire.WANT_STATES | wire.FROM
            self.state = client.detail()["state"]
            client.hello(wants, past.end)
            client.subscribe()
        except BaseException:
            _let_go(screen, client)
            raise
        return screen, client

    def close(self) -> None:
        self._leave()
        if self._reloading is not None:
            self._reloading.cancel()
        if self._screen is not None:
            self._screen.__exit__(None, None, None)
            self._screen = None

    def _leave(self) -> None:
        if self._client is not None:
            asyncio.get_running_loop().remove_reader(self._client.sock)
            self._client.close()
            self._client = None

    def _on_data(self) -> None:
        assert self._client is not None
        try:
            for message in self._client.receive():
                self._take(message)
        except BlockingIOError:
            return
        except TreadleError as error:
            if self.ended is None:
                self.problem = error.message
            self._leave()
        self.changed.set()

    def _take(self, message: wire.Frame) -> None:
        if self._screen is None:
            return
        if isinstance(message, wire.ProgramOutput):
            self._screen.feed(message.data)
            self._dirty = True
        elif isinstance(message, wire.Size):
            self._screen.resize(message.cols, message.rows)
            self._dirty, self._lines, self._versions = True, [], []
        elif isinstance(message, wire.StateFrame):
            self.state = message.body
        elif isinstance(message, wire.Exit):
            self.ended = message.code
        elif isinstance(message, wire.Gap):
            # We did not keep up: rebuild the whole screen from what is on disk.
            self._leave()
            self._reloading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        old, self._screen = self._screen, None
        if old is not None:
            old.__exit__(None, None, None)
        await asyncio.sleep(RELOAD_PAUSE)
        try:
            await self.open()
        except TreadleError as error:
            self.problem = error.message
        self.changed.set()

    def _look(self) -> None:
        """Find the rows that changed since the last look."""
        screen = self._screen
        now = time.monotonic()
        if screen is None or not self._dirty and now - self._looked < LOOKS_SECONDS:
            return
        lines = screen.lines()
        colours = now - self._looked >= LOOKS_SECONDS or len(lines) != len(self._lines)
        if len(lines) != len(self._versions):
            self._lines, self._rows, self._versions = [""] * len(lines), [None] * len(lines), [0] * len(lines)
        self._version += 1
        for number, line in enumerate(lines):
            if colours or line != self._lines[number]:
                runs = screen.runs(number)
                if runs != self._rows[number]:
                    self._rows[number], self._versions[number] = runs, self._version
        self._lines, self._dirty = lines, False
        if colours:
            self._looked = now

    def frame(self, since: int = 0) -> dict[str, Any]:
        """The screen for a watcher who has it as of `since`; 0 means nothing yet."""
        self._look()
        screen = self._screen
        if screen is None:
            return {"id": self.place.id, "at": self._version, "rows": {}}
        cols, rows = screen.size
        x, y = screen.cursor
        return {
            "id": self.place.id,
            "at": self._version,
            "full": since == 0,
            "cols": cols,
            "lines": rows,
            "cursor": [x, y] if screen.cursor_visible else None,
            "title": screen.title[:200],
            "state": self.state.get("name", "dead" if self.ended is not None else "unknown"),
            "message": self.state.get("message") or "",
            "ended": self.ended,
            "problem": self.problem,
            "rows": {number: self._rows[number] for number, version in enumerate(self._versions) if version > since},
        }


def _let_go(screen: Screen, client: Client | None) -> None:
    screen.__exit__(None, None, None)
    if client is not None:
        client.close()


class Screens:
    """All terminals that are followed now."""

    def __init__(self, find: Callable[[str], Awaitable[Place]]) -> None:
        self._find = find
        self._live: dict[str, LiveScreen] = {}
        self._opening = asyncio.Lock()
        """Two who ask for one terminal at the same moment get one connection, and it is counted for both."""

    async def watch(self, name: str) -> LiveScreen:
        """Follow a terminal; `leave` it afterwards."""
        async with self._opening:
            await self._tidy()
            live = self._live.get(name)
            if live is None or live.problem or (live.ended is not None and not live.watchers):
                if live is not None:
                    live.close()
                live = self._live[name] = LiveScreen(await self._find(name))
                try:
                    await live.open()
                except BaseException:
                    del self._live[name]
                    raise
            live.watchers += 1
            return live

    def leave(self, live: LiveScreen) -> None:
        live.watchers -= 1
        live.left_at = time.monotonic()

    async def _tidy(self) -> None:
        for name, live in list(self._live.items()):
            if live.watchers <= 0 and time.monotonic() - live.left_at > LINGER:
                live.close()
                del self._live[name]

    def close(self) -> None:
        for live in self._live.values():
            live.close()
        self._live.clear()
