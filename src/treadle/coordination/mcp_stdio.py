"""The ledger server on standard input and output: messages in either framing in, one line for each reply out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from treadle.coordination.mcp import Server
from treadle.wire.common.framing import MessageSplitter
from treadle.wire.common.jsonrpc import reply

if TYPE_CHECKING:
    from treadle.errors import RemoteProtocolError


def serve(server: Server, source: int = 0, sink: int = 1) -> None:
    """Answer until the input ends; a last message without its newline counts too."""
    splitter = MessageSplitter()
    try:
        while data := os.read(source, 1 << 16):
            _answer(server, splitter.feed(data), sink)
        if rest := splitter.end().strip():
            _answer(server, [rest], sink)
    finally:
        server.close()


def _answer(server: Server, messages: Iterable[bytes | RemoteProtocolError], sink: int) -> None:
    for message in messages:
        answer = reply(message, server.handle)
        if answer is not None:
            view = memoryview(answer.encode() + b"\n")
            while view:
                view = view[os.write(sink, view) :]
