"""Ways in which a model service breaks, performed on a real socket."""

import asyncio
import re
import socket
import struct
from typing import get_args

import msgspec

from treadle.agent.providers.script import ErrorLine, Fault
from treadle.errors import ConfigError

GIANT = 64 * 1024 * 1024
HARMLESS = frozenset({"slow", "split", "giant"})
"""After these faults the reply is complete, so the script goes on; after any other the same reply is given again."""

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
CHUNKED = STREAM + b"transfer-encoding: chunked\r\n\r\n"
HTML = b"<!doctype html><title>Sign in</title><h1>Sign in to the hotel network</h1>"


def parse(text: str) -> Fault | ErrorLine | None:
    """A fault as written on a command line: a name, a status such as `500` or `429:2` (seconds to wait), or `ok`."""
    if text == "ok":
        return None
    if status := re.fullmatch(r"([45]\d\d)(?::([\d.]+))?", text):
        wait = float(status[2]) if status[2] else None
        return ErrorLine(status=int(status[1]), message="a fault was asked for", retry_after=wait)
    try:
        fault: Fault = msgspec.convert(text, Fault)
        return fault
    except msgspec.ValidationError:
        known = ", ".join(get_args(Fault))
        raise ConfigError(f"unknown fault {text!r}", hint=f"one of: ok, 429:SECONDS, 500, {known}") from None


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def perform(
    fault: Fault, events: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer with `events`, with this fault. True if the connection can serve another request."""
    half = events[: len(events) // 2]
    body = b"".join(events)
    if fault == "hang":
        await _until_gone(reader)
    elif fault == "html":
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(HTML) + HTML)
        return True
    elif fault == "short_length":
        writer.write(STREAM + b"content-length: %d\r\n\r\n" % (len(body) // 2) + body)
    elif fault == "long_length":
        writer.write(STREAM + b"content-length: %d\r\n\r\n" % (len(body) * 2) + body[: len(body) // 2])
    else:
        writer.write(CHUNKED)
        return await _streamed(fault, half, events, reader, writer)
    return False


async def _streamed(
    fault: Fault,
    half: list[bytes],
    events: list[bytes],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> bool:
    rest = events[len(half) :]
    if fault in ("cut", "reset", "stall"):
        writer.write(chunk(b"".join(half) + rest[0][: len(rest[0]) // 2]))
        await writer.drain()
        if fault == "stall":
            await _until_gone(reader)
        if fault == "reset":
            _reset(writer)
        return False
    if fault == "early_end":
        writer.write(chunk(b"".join(half)))
    elif fault == "garbage":
        writer.write(chunk(b"".join(half) + b"data: {\x00\xff not json\n\n" + b"".join(rest)))
    elif fault == "giant":
        writer.write(chunk(b"".join(half) + b'data: {"type":"ping","choices":[],"padding":"'))
        for _ in range(GIANT >> 20):
            writer.write(chunk(b"x" * (1 << 20)))
            await writer.drain()
        writer.write(chunk(b'"}\n\n' + b"".join(rest)))
    else:
        await _dribble(b"".join(events), writer, pause=0.001 if fault == "slow" else 0.0)
    writer.write(b"0\r\n\r\n")
    return True


async def _dribble(body: bytes, writer: asyncio.StreamWriter, pause: float) -> None:
    """Send a few bytes at a time, and single bytes inside a character that has several."""
    for piece in re.findall(rb"[\x80-\xff]|[\x00-\x7f]{1,7}", body):
        writer.write(chunk(piece))
        await writer.drain()
        await asyncio.sleep(pause)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
