"""The one pump between a stream and a wire: ask the core; if it needs bytes, read; repeat.

link = Link(child.stdio, Connection("host"))
await link.send(hello)
async for message in link: ...
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Generic, Protocol, TypeVar

from treadle.errors import PeerStalled
from treadle.io.streams import Stream

WRITE_TIMEOUT = 30.0

Received = TypeVar("Received", covariant=True)
Said = TypeVar("Said", contravariant=True)


class Wire(Protocol[Received, Said]):
    """What a `wire` module's `Connection` gives."""

    def receive(self, data: bytes) -> Sequence[Received]: ...
    def send(self, message: Said) -> bytes: ...
    def end(self) -> Sequence[Received]: ...


class Link(Generic[Received, Said]):
    """Iterate to hear the peer until it ends; `send` to speak, from as many tasks as you like."""

    def __init__(
        self, stream: Stream, wire: Wire[Received, Said], *, write_timeout: float | None = WRITE_TIMEOUT
    ) -> None:
        self.stream = stream
        self.wire = wire
        self.write_timeout = write_timeout
        self._turn = asyncio.Lock()
        self.ended = False
        """The peer has said all it will ever say."""

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Nothing is read while the last message is being dealt with, so a slow listener slows the speaker."""
        async for messages in self.batches():
            for message in messages:
                yield message

    async def batches(self) -> AsyncGenerator[Sequence[Received], None]:
        """The messages as they come in: for a peer that may send many small ones, this costs less for each."""
        while (messages := await self.receive()) is not None:
            yield messages

    async def receive(self) -> Sequence[Received] | None:
        """What has come next, which may be less than a message; None after the end. May be cancelled and repeated."""
        if self.ended:
            return None
        if data := await self.stream.read():
            return self.wire.receive(data)
        self.ended = True
        return self.wire.end()

    async def send(self, *messages: Said) -> None:
        """Returns when the system has taken all. A peer that takes nothing for too long is `PeerStalled`.

        The stream is closed then, as a message may be half-written.
        """
        async with self._turn:  # so that what the wire has noted as said is said in that order
            data = b"".join([self.wire.send(message) for message in messages])
            try:
                async with asyncio.timeout(self.write_timeout):
                    await self.stream.write(data)
            except TimeoutError:
                self.stream.close()
                raise PeerStalled(f"the peer has not read for {self.write_timeout:g} s; gave up on it") from None

    def close(self) -> None:
        self.stream.close()
