"""A socket of ours that a sandbox shows: what confined programs may reach outside goes through one."""

import asyncio
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
        """One connection; what fails in it is told there."""
        raise NotImplementedError
