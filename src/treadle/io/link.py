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
Sent = TypeVar("Sent", contravariant=True)


class WireConnection(Protocol[Received, Sent]):
    """What the `Connection` of a `wire` module provides."""

    def receive(self, data: bytes) -> Sequence[Received]: ...
    def send(self, message: Sent) -> bytes: ...
    def end(self) -> Sequence[Received]: ...


class Link(Generic[Received, Sent]):
    """Iterate to receive messages until the peer ends; `send` from as many tasks as you like."""

    def __init__(
        self, stream: Stream, wire: WireConnection[Received, Sent], *, write_timeout: float | None = WRITE_TIMEOUT
    ) -> None:
        self.stream = stream
        self.wire = wire
        self.write_timeout = write_timeout
        self._turn = asyncio.Lock()
        self.ended = False
        """Whether the peer has ended its output."""

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Nothing is read while the last message is being handled, so a slow receiver slows the sender."""
        async for messages in self.batches():
            for message in messages:
                yield message

    async def batches(self) -> AsyncGenerator[Sequence[Received], None]:
        """The messages in batches as they arrive, which costs less per message when a peer sends many small ones."""
        while (messages := await self.receive()) is not None:
            yield messages

    async def receive(self) -> Sequence[Received] | None:
        """The messages that arrived next, possibly none; None after the end. Can be cancelled and called again."""
        if self.ended:
            return None
        if data := await self.stream.read():
            return self.wire.receive(data)
        self.ended = True
        return self.wire.end()

    async def send(self, *messages: Sent) -> None:
        """Returns when the system has taken everything. Raises `PeerStalled` if the peer reads nothing for too long.

        The stream is closed then, because a message may be half-written.
        """
        async with self._turn:  # so that messages are written in the order in which the wire recorded them
            data = b"".join([self.wire.send(message) for message in messages])
            try:
                async with asyncio.timeout(self.write_timeout):
                    await self.stream.write(data)
            except TimeoutError:
                self.stream.close()
                raise PeerStalled(f"the peer has not read for {self.write_timeout:g} s; gave up on it") from None

    def close(self) -> None:
        self.stream.close()
