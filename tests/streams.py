"""A stream with both ends in memory, held to the same contract as ours."""

from __future__ import annotations

import asyncio

from treadle.errors import PeerClosed
from treadle.io.streams import CHUNK, Waiting


def pair() -> tuple[MemoryStream, MemoryStream]:
    """Two ends in memory: what is written to one is read from the other. Each direction holds at most 64 KiB."""
    there, back = _Pipe(), _Pipe()
    return MemoryStream(back, there), MemoryStream(there, back)


class MemoryStream:
    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._turn = asyncio.Lock()

    async def read(self) -> bytes:
        return await self._incoming.take()

    async def write(self, data: bytes) -> None:
        async with self._turn:
            await self._outgoing.put(data)

    async def abandoned(self) -> None:
        await self._outgoing.closed()

    def close_write(self) -> None:
        self._outgoing.end()

    def close(self) -> None:
        self._outgoing.end()
        self._incoming.abandon()


class _Pipe:
    def __init__(self) -> None:
        self._held = bytearray()
        self._ended = False
        self._abandoned = False
        self._changed = Waiting()

    async def take(self) -> bytes:
        while not self._held and not self._ended and not self._abandoned:
            await self._changed.wait()
        data = bytes(self._held)
        self._held.clear()
        self._changed.wake()
        return data

    async def put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._ended or self._abandoned:
                raise PeerClosed("the other end no longer reads" if self._abandoned else "the stream is closed")
            room = CHUNK - len(self._held)
            if room <= 0:
                await self._changed.wait()
                continue
            self._held += view[:room]
            view = view[room:]
            self._changed.wake()

    async def closed(self) -> None:
        while not self._ended and not self._abandoned:
            await self._changed.wait()

    def end(self) -> None:
        self._ended = True
        self._changed.wake()

    def abandon(self) -> None:
        self._abandoned = True
        self._held.clear()
        self._changed.wake()
