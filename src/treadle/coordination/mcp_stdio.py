"""The ledger server on standard input and output: messages in either framing come in, replies go out one per line."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable

from treadle.coordination.mcp import Server
from treadle.light import TYPE_CHECKING
from treadle.wire.common.framing import MessageSplitter
from treadle.wire.common.jsonrpc import reply

if TYPE_CHECKING:
    from treadle.errors import RemoteProtocolError


RENEW_SECONDS = 60.0


def serve(server: Server, source: int = 0, sink: int = 1) -> None:
    """Answer until the input ends; a last message without its newline counts too."""
    splitter = MessageSplitter()
    try:
        while data := _next(server, source):
            _answer(server, splitter.feed(data), sink)
        if rest := splitter.end().strip():
            _answer(server, [rest], sink)
    finally:
        server.close()


def _next(server: Server, source: int) -> bytes:
    """The next input. Meanwhile the client's claims are renewed, because it is connected."""
    while not select.select([source], [], [], RENEW_SECONDS)[0]:
        server.renew()
    return os.read(source, 1 << 16)


def _answer(server: Server, messages: Iterable[bytes | RemoteProtocolError], sink: int) -> None:
    for message in messages:
        answer = reply(message, server.handle)
        if answer is not None:
            view = memoryview(answer.encode() + b"\n")
            while view:
                view = view[os.write(sink, view) :]
