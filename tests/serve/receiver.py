"""A real HTTP server that hears what is sent to it, for everything that tells somebody else something."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

WAIT = 60.0


class Heard(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers 503 as often as it is told to, and then `reply`."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.refusals = 0
        self.status = "200 OK"
        self.reply = b""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until(self, wanted: Callable[[Heard], object], count: int = 1) -> Heard:
        async with asyncio.timeout(WAIT):
            while len(found := [each for each in self.heard if wanted(each)]) < count:
                await asyncio.sleep(0.02)
        return found[-1]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, reply = (self.status, self.reply) if not self.refusals else ("503 Busy", b"")
            self.refusals = max(0, self.refusals - 1)
            if not status.startswith("503"):
                self.heard.append(Heard(head[0].split()[1], headers, body))
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(reply)}\r\nconnection: close\r\n\r\n".encode())
            writer.write(reply)
            await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    made = Receiver()
    listening = await asyncio.start_server(made._answer, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield made
