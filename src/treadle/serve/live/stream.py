"""Changes and events as server-sent events for scripts, which can continue from `Last-Event-ID`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import EVENTS, STATE, Entry
from treadle.fleet.engine.pull import Pull
from treadle.fleet.find.order_rows import row_of
from treadle.fleet.orders import read_order
from treadle.serve.envelope import RequestRefused, failure
from treadle.serve.site import Site

ALIVE_SECONDS = 15.0
STREAMS_MAX = 200


async def changes(site: Site, request: Request) -> Response:
    """`GET /api/v1/changes`: each order as it changes; the id is the revision."""
    try:
        bus = _admitted(site, request)
        start = _last(request)[0] or await bus.last_revision()
    except TreadleError as error:
        return failure(error)

    async def lines() -> AsyncIterator[bytes]:
        pull = Pull(bus, STATE, filters=("$KV.fleet.order.*",), start=start + 1)
        try:
            while True:
                messages = await pull.next(ALIVE_SECONDS)
                for message in messages:
                    if message.data and not (message.headers or {}).get("KV-Operation"):
                        seq = message.metadata.sequence.stream
                        entry = Entry(message.subject.removeprefix("$KV.fleet."), message.data, seq)
                        yield _event("order", str(seq), row_of(read_order(entry), seq))
                if not messages:
                    yield b": alive\n\n"
        finally:
            await pull.close()

    return _streamed(site, lines())


async def events(site: Site, request: Request) -> Response:
    """`GET /api/v1/orders/ID/stream`: an order's events, from the first or after the last that was read."""
    try:
        bus = _admitted(site, request)
        name = await client.resolve(bus, str(request.path_params["id"]))
        seq, number = _last(request)
    except TreadleError as error:
        return failure(error)

    async def lines() -> AsyncIterator[bytes]:
        pull = Pull(bus, EVENTS, filters=(f"fleet.ev.{name}.>",), start=max(1, seq))
        try:
            while True:
                messages = await pull.next(ALIVE_SECONDS)
                for message in messages:
                    at = message.metadata.sequence.stream
                    for line in _unpacked(message, at, number if at == seq else 0):
                        yield line
                if not messages:
                    yield b": alive\n\n"
        finally:
            await pull.close()

    return _streamed(site, lines())


def _unpacked(message: Any, at: int, after: int) -> list[bytes]:
    body = msgspec.json.decode(message.data)
    attempt = int(message.subject.split(".")[3])
    if "end" in body:
        return [] if after else [_event("end", f"{at}.1", {"attempt": attempt, **body})]
    return [
        _event("event", f"{at}.{n}", {"attempt": attempt, "n": n, "event": event})
        for n, event in enumerate(body["events"], body["n"])
        if n > after
    ]


def _admitted(site: Site, request: Request) -> Any:
    if request.scope["device"] is None:
        raise RequestRefused(401, "unauthorized", "a token is needed")
    if site.streams >= STREAMS_MAX:
        raise RequestRefused(429, "too_many", "too many streams are open", after=5)
    return site.fleet.require_bus()


def _last(request: Request) -> tuple[int, int]:
    """The sequence and number in `Last-Event-ID`, or in `?after=` for clients that cannot set a header."""
    text = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    seq, _, number = text.partition(".")
    if not (seq.isdigit() and (number or "0").isdigit() and len(text) < 40):
        raise RequestRefused(400, "bad_request", f"{text[:40]!r} is not a place in the stream")
    return int(seq), int(number or 0)


def _event(kind: str, name: str, value: Any) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), name.encode(), msgspec.json.encode(value))


def _streamed(site: Site, lines: AsyncIterator[bytes]) -> Response:
    async def counted() -> AsyncIterator[bytes]:
        site.streams += 1
        try:
            yield b"retry: 1000\n\n"
            async for line in lines:
                yield line
        except asyncio.CancelledError:
            raise
        except TreadleError:
            return
        finally:
            site.streams -= 1

    return StreamingResponse(counted(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
