"""A socket of ours that a sandbox shows: what confined programs may reach outside goes through one."""

import asyncio
import contextlib
import os

from treadle.io import scratch


class Passage:
    def __init__(self, place: str, kind: str, *, limit: int = 64 * 1024) -> None:
        """`place`: its path inside. `limit`: bytes that a connection may hold unread."""
        self.place = place
        self._limit = limit
        self._directory = scratch.make(kind)
        self.path = os.path.join(self._directory, "s")
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._visit, self.path, limit=self._limit)
        os.chmod(self.path, 0o600)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in list(self._visits):
            visit.cancel()
        scratch.remove(self._directory)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            await self.serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the program is gone
        finally:
            self._visits.discard(task)
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; what fails in it is reported there."""
        raise NotImplementedError


class Granted(Passage):
    """A Unix socket outside that may be reached: for each connection one is made to it, by its name at that moment.

    Only bytes go through, not descriptors.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place, "granted")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # nothing listens there: the connection ends
            there = await asyncio.open_unix_connection(self.place)
            try:
                await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
            finally:
                there[1].close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on everything, and the end."""
    try:
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        pass  # one end is gone, and the other notices
