"""Settings of the HTTP server, and connections that are closed when no request is completed on them."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from treadle.serve.gate import Gate
from treadle.serve.listening import Listening, tls_context

IDLE_SECONDS = 15.0
"""A connection on which no request is completed for this long is closed, however slowly its bytes come."""
CONNECTIONS_MAX = 2000
MESSAGE_MAX = 64 * 1024
"""The largest message that a tab may send."""


class BoundedConnection(H11Protocol):
    """A connection that is closed when its bytes come too slowly: holding one open costs an attacker nothing."""

    idle_seconds = IDLE_SECONDS
    _checking: asyncio.TimerHandle | None = None
    _last: Any = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.access_log = False  # addresses of answer links are secrets, and handlers of the root logger would see them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._check_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._checking is not None:
            self._checking.cancel()
        super().connection_lost(exc)

    def _check_later(self) -> None:
        self._checking = asyncio.get_running_loop().call_later(self.idle_seconds, self._check)

    def _check(self) -> None:
        if self.transport.get_protocol() is not self:  # it has become a WebSocket
            return
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self._check_later()


def make_config(gate: Gate, listening: Listening) -> uvicorn.Config:
    config = uvicorn.Config(
        gate,
        http=BoundedConnection,
        ws="websockets-sansio",
        ws_max_size=MESSAGE_MAX,
        ws_per_message_deflate=False,  # its memory for each tab would exceed everything else here
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=listening.behind_proxy,
        forwarded_allow_ips="127.0.0.1",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=32 * 1024,
        log_config=None,
    )
    config.load()
    if listening.tls is not None:
        config.ssl = tls_context(*listening.tls)
    return config


class SignalledServer(uvicorn.Server):
    """Ends in order at a signal. Uvicorn's own server raises the signal again before others can clean up."""

    ended_by = 0

    def __init__(self, config: uvicorn.Config, *, heeds_signals: bool = True) -> None:
        super().__init__(config)
        self._heeds_signals = heeds_signals

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if not self._heeds_signals:  # they are for the program around it
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.ended_by = self.ended_by or sig
        super().handle_exit(sig, frame)
