"""The ledger server on standard input and output: messages in either framing come in, replies go out one per line."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable

from treadle.coordination.mcp import Server
from treadle.light import TYPE_CHECKING
from treadle.wire.common.framing import MessageSplitter
from treadle.wire.common.jsonrpc import reply
from treadle.wire.common.jsontext import dumps

if TYPE_CHECKING:
    from treadle.errors import RemoteProtocolError


RENEW_SECONDS = 60.0
NEWS_SECONDS = 1.0
"""How often we look for news while the client has subscribed to something or waits for something."""


def serve(server: Server, source: int = 0, sink: int = 1) -> None:
    """Answer until the input ends; a last message without its newline counts too."""
    splitter = MessageSplitter()
    try:
        while data := _next(server, source, sink):
            _answer(server, splitter.feed(data), sink)
        if rest := splitter.end().strip():
            _answer(server, [rest], sink)
    finally:
        server.close()


def _next(server: Server, source: int, sink: int) -> bytes:
    """The next input. Meanwhile the client's claims are renewed, because it is connected, and it is told the news."""
    while not select.select([source], [], [], NEWS_SECONDS if server.watches() else RENEW_SECONDS)[0]:
        server.renew()
        for notification in server.news():
            _write(sink, dumps(notification))
    return os.read(source, 1 << 16)


def _answer(server: Server, messages: Iterable[bytes | RemoteProtocolError], sink: int) -> None:
    for message in messages:
        answer = reply(message, server.handle)
        if answer is not None:
            _write(sink, answer)


def _write(sink: int, text: str) -> None:
    view = memoryview(text.encode() + b"\n")
    while view:
        view = view[os.write(sink, view) :]
