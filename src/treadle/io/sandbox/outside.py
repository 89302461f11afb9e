"""What confined programs may have done outside: for each connection to a socket in the sandbox, a program of ours runs.

The request is only that program's standard input; it chooses neither the program nor its words, directory or variables.
The program judges the request, and bounds its own time. It ends when the connection does.
"""

import asyncio
import contextlib
import os

from treadle.errors import TreadleError
from treadle.io.process import child as children
from treadle.io.process.child import Child
from treadle.io.sandbox.passage import Passage
from treadle.session import RelayGrant

MOST = 8
"""Connections at once; further ones wait."""


class Outside(Passage):
    def __init__(self, grant: RelayGrant) -> None:
        super().__init__(grant.place, "relay")
        self._grant = grant
        self._free = asyncio.Semaphore(MOST)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # If either end is gone or the program cannot be started, the one inside sees no answer, and says so.
        with contextlib.suppress(TreadleError, OSError):
            async with self._free:
                await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        grant = self._grant
        env = {**os.environ, **dict(grant.env)}
        child = await children.start(grant.argv, cwd=grant.cwd, env=env, stdin="pipe", stdout="pipe", stderr=None)
        async with child:
            given = asyncio.ensure_future(_give(reader, child))
            try:
                while data := await child.stdio.read():
                    writer.write(data)
                    await writer.drain()
            finally:
                given.cancel()


async def _give(reader: asyncio.StreamReader, child: Child) -> None:
    with contextlib.suppress(TreadleError, OSError):  # the other direction notices too
        while data := await reader.read(64 * 1024):
            await child.stdio.write(data)
    child.stdio.close_write()
