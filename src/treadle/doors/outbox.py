"""A door's output, on its way to a client that may be slow or gone.

All pending output is written at once, and never waits for more. A producer that is too fast waits for room.
"""

import asyncio
from collections.abc import Callable

from treadle.errors import PeerClosed, StorageError
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks

ROOM = 256 * 1024
"""How many bytes may wait before their producer is held back."""
STALLED_SECONDS = 600.0
"""A client that reads nothing for this long is given up."""


class Outbox:
    def __init__(
        self, stream: Stream, warn: Callable[[str], None], *, room: int = ROOM, stalled: float = STALLED_SECONDS
    ) -> None:
        self._stream = stream
        self._warn = warn
        self._room = room
        self._stalled = stalled
        self._waiting: list[bytes] = []
        self._size = 0
        self._more, self._less = asyncio.Event(), asyncio.Event()
        self._gone = False

    def put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._more.set()

    @property
    def empty(self) -> bool:
        """Whether the client has taken everything."""
        return self._size == 0

    async def run(self) -> None:
        """Write what is put here. Returns when the client is gone, even when there is nothing to write."""
        writing, leaving = asyncio.create_task(self._write_all()), asyncio.create_task(self._stream.abandoned())
        try:
            await asyncio.wait([writing, leaving], return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            self._gone = True
            self._less.set()
            await end_tasks(writing, leaving)

    async def _write_all(self) -> None:
        while await self._write():
            pass

    async def _write(self) -> bool:
        await self._more.wait()
        self._more.clear()
        data, self._waiting = b"".join(self._waiting), []
        try:
            async with asyncio.timeout(self._stalled):
                await self._stream.write(data)
        except TimeoutError:
            self._warn(f"the client has read nothing for {self._stalled:g} s; giving up")
            return False
        except PeerClosed:
            return False
        except StorageError as error:
            self._warn(str(error))
            return False
        self._size -= len(data)
        self._less.set()
        return True

    async def room(self, times: int = 1) -> None:
        """Wait until there is room for more; with `times`, as if the room were so many times as large."""
        await self._until(self._room * times)

    async def flushed(self) -> None:
        """Wait until the client has taken everything, or is gone."""
        await self._until(0)

    async def _until(self, size: int) -> None:
        while self._size > size and not self._gone:
            self._less.clear()
            await self._less.wait()
