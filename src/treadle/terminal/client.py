"""Talk to a terminal's supervisor: `Client` waits, `AsyncClient` awaits. Both speak `wire.terminal`."""

from __future__ import annotations

import time

from treadle.errors import NotFound, PeerExited, PeerStalled, RemoteProtocolError, TimedOut
from treadle.terminal import native
from treadle.wire.terminal import frames as wire
from treadle.wire.terminal.connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType
    from typing import Any, TypeVar

    M = TypeVar("M", bound=wire.Message)

CHUNK = 64 * 1024
"""Input is sent in frames of this size, so that a paste does not hold up what comes after it."""


class Client:
    """One connection. `timeout` bounds every wait for an answer, in seconds; None waits for ever."""

    def __init__(self, path: str, timeout: float | None = 10.0) -> None:
        self.timeout = timeout
        self.sock = native.connect(path, timeout)
        self._wire = Connection("client")
        self._ready: list[wire.Message] = []
        self._aside: list[wire.Message] = []
        try:
            self._next(self._deadline(timeout))  # the mode byte
        except TimedOut:
            self.sock.close()
            raise PeerStalled(f"the supervisor at {path} does not answer") from None
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    # Orders...

    def input(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            self.send(wire.Input(data[at : at + CHUNK]))

    def resize(self, cols: int, rows: int) -> None:
        self.send(wire.Resize(cols, rows))

    def kill(self) -> None:
        """One SIGTERM to the program's process group."""
        self.send(wire.Kill())

    # Questions...

    def status(self) -> wire.StatusReply:
        return self.ask(wire.Status(), wire.StatusReply)

    def hello(self, wants: int = 0, start: int = 0) -> wire.HelloReply:
        """Say what this client is and wants (`wire.WANT_...`). A supervisor without our additions does not answer."""
        return self.ask(wire.Hello(wants, start), wire.HelloReply)

    def detail(self) -> dict[str, Any]:
        return self.ask(wire.Detail(), wire.DetailReply).body

    def stop(self, grace: float = 5.0) -> dict[str, Any]:
        """End the program and all that belongs to it. Gives its exit code and what died."""
        return self.ask(wire.Stop.within(grace), wire.Stopped, extra=grace + 2).body

    def subscribe(self) -> None:
        self.send(wire.Subscribe())

    def messages(self, timeout: float | None = None) -> Iterator[wire.Message]:
        """All that comes, up to and including Exit; `timeout` bounds the whole of it and ends it with TimedOut."""
        deadline = self._deadline(timeout)
        while True:
            message = self._aside.pop(0) if self._aside else self._next(deadline)
            yield message
            if isinstance(message, wire.Exit):
                return

    def output(self, timeout: float | None = None) -> Iterator[bytes]:
        """Subscribe and give the output until the program has ended; then `exit_code` is set."""
        self.subscribe()
        for message in self.messages(timeout):
            if isinstance(message, wire.Output):
                yield message.data
            elif isinstance(message, wire.Exit):
                self.exit_code = message.code

    exit_code: int | None = None

    # The wire...

    def send(self, message: wire.Message) -> None:
        try:
            self.sock.sendall(self._wire.send(message))
        except TimeoutError:
            raise PeerStalled("the supervisor does not read what it is sent") from None
        except OSError as error:
            raise PeerExited("the supervisor", None) from error

    def ask(self, question: wire.Message, answer: type[M], extra: float = 0.0) -> M:
        """The answer to a question. What else arrives meanwhile is kept for `messages`."""
        self.send(question)
        deadline = self._deadline(None if self.timeout is None else self.timeout + extra)
        while True:
            try:
                message = self._next(deadline)
            except TimedOut:
                raise PeerStalled(f"the supervisor does not answer {type(question).__name__}") from None
            if isinstance(message, answer):
                return message
            self._aside.append(message)

    def _deadline(self, timeout: float | None) -> float | None:
        return None if timeout is None else time.monotonic() + timeout

    def waiting(self) -> list[wire.Message]:
        """What arrived while an answer was waited for."""
        found, self._aside, self._ready = [*self._aside, *self._ready], [], []
        return found

    def receive(self) -> list[wire.Message]:
        """What one read gives, for who selects on `sock` himself."""
        try:
            data = self.sock.recv(1 << 18)
        except TimeoutError:
            raise TimedOut("nothing came in time") from None
        except OSError as error:
            raise PeerExited("the supervisor", None) from error
        if not data:
            self._wire.end()
            raise PeerExited("the supervisor", None)
        found = []
        for message in self._wire.receive(data):
            if isinstance(message, RemoteProtocolError):
                raise message
            found.append(message)
        return found

    def _next(self, deadline: float | None) -> wire.Message:
        while not self._ready:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimedOut("nothing came in time")
            self.sock.settimeout(left)
            try:
                self._ready += self.receive()
            finally:
                self.sock.settimeout(self.timeout)
        return self._ready.pop(0)


class AsyncClient:
    """The same for asyncio. Make one with `await AsyncClient.connect(path)`; it is an async context manager."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float | None) -> None:
        import asyncio

        self.timeout = timeout
        self.exit_code: int | None = None
        self._reader = reader
        self._writer = writer
        self._wire = Connection("client")
        self._ready: list[wire.Message] = []
        self._asked: list[tuple[type[wire.Message], asyncio.Future[wire.Message]]] = []
        self._reading = asyncio.Lock()

    @classmethod
    async def connect(cls, path: str, timeout: float | None = 10.0) -> AsyncClient:
        import asyncio

        try:
            reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(path, limit=1 << 18), timeout)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotFound(f"nothing listens at {path}") from error
        except TimeoutError:
            raise PeerStalled(f"the supervisor at {path} does not take connections") from None
        client = cls(reader, writer, timeout)
        try:
            await asyncio.wait_for(client._next(), timeout)  # the mode byte
        except TimeoutError:
            await client.close()
            raise PeerStalled(f"the supervisor at {path} does not answer") from None
        except BaseException:
            await client.close()
            raise
        return client

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass  # it went first

    async def input(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            await self.send(wire.Input(data[at : at + CHUNK]))

    async def resize(self, cols: int, rows: int) -> None:
        await self.send(wire.Resize(cols, rows))

    async def kill(self) -> None:
        await self.send(wire.Kill())

    async def status(self) -> wire.StatusReply:
        return await self.ask(wire.Status(), wire.StatusReply)

    async def hello(self, wants: int = 0, start: int = 0) -> wire.HelloReply:
        return await self.ask(wire.Hello(wants, start), wire.HelloReply)

    async def detail(self) -> dict[str, Any]:
        return (await self.ask(wire.Detail(), wire.DetailReply)).body

    async def stop(self, grace: float = 5.0) -> dict[str, Any]:
        return (await self.ask(wire.Stop.within(grace), wire.Stopped, extra=grace + 2)).body

    async def subscribe(self) -> None:
        await self.send(wire.Subscribe())

    async def messages(self) -> AsyncIterator[wire.Message]:
        """All that comes and is no answer to a question, up to and including Exit."""
        while True:
            message = await self._next()
            yield message
            if isinstance(message, wire.Exit):
                self.exit_code = message.code
                return

    async def output(self) -> AsyncIterator[bytes]:
        """Subscribe and give the output until the program has ended; then `exit_code` is set."""
        await self.subscribe()
        async for message in self.messages():
            if isinstance(message, wire.Output):
                yield message.data

    async def send(self, message: wire.Message) -> None:
        self._writer.write(self._wire.send(message))
        try:
            await self._writer.drain()
        except OSError as error:
            raise PeerExited("the supervisor", None) from error

    async def ask(self, question: wire.Message, answer: type[M], extra: float = 0.0) -> M:
        """The answer to a question, whether or not somebody reads `messages` at the same time."""
        import asyncio

        future: asyncio.Future[wire.Message] = asyncio.get_running_loop().create_future()
        entry = (answer, future)
        self._asked.append(entry)
        try:
            await self.send(question)
            limit = None if self.timeout is None else self.timeout + extra
            found = await asyncio.wait_for(self._read_until(future), limit)
        except TimeoutError:
            raise PeerStalled(f"the supervisor does not answer {type(question).__name__}") from None
        finally:
            if entry in self._asked:
                self._asked.remove(entry)
        assert isinstance(found, answer)
        return found

    async def _read_until(self, future: asyncio.Future[wire.Message]) -> wire.Message:
        while not future.done():
            async with self._reading:  # whoever reads delivers to all
                if not future.done():
                    await self._read()
        return future.result()

    async def _next(self) -> wire.Message:
        while not self._ready:
            async with self._reading:
                if not self._ready:
                    await self._read()
        return self._ready.pop(0)

    async def _read(self) -> None:
        try:
            data = await self._reader.read(1 << 18)
        except OSError as error:
            raise PeerExited("the supervisor", None) from error
        if not data:
            self._wire.end()
            raise PeerExited("the supervisor", None)
        for message in self._wire.receive(data):
            if isinstance(message, RemoteProtocolError):
                raise message
            for entry in self._asked:
                if isinstance(message, entry[0]):
                    self._asked.remove(entry)
                    entry[1].set_result(message)
                    break
            else:
                self._ready.append(message)
