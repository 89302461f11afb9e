"""Links with which a person watches one terminal, without a token, until they expire. Nothing can be typed there.

A link is for the program that ran when it was made: a later one of the same name is not shown. The code is in the
fragment of the link, which no log sees; the page sends it in a header.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from treadle.errors import NotFound, TreadleError
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.envelope import RequestRefused, failure
from treadle.serve.gate import Gate, address_of
from treadle.serve.site import Site
from treadle.serve.tokens import SHARE_MAX, SHARE_PAGE, SHARE_SECONDS, SharedTerminal
from treadle.terminal.client import Client
from treadle.terminal.live import LiveScreen
from treadle.terminal.places import Place

HEADER = "x-treadle-share"
STREAM = "/share/screen"
PAUSE = 0.1
CHECK_SECONDS = 1.0
"""How often it is checked that a link still counts, and that its watcher is there."""
STREAMS_MAX = 200


class NewShare(RequestBody, frozen=True, kw_only=True):
    seconds: Annotated[float, Meta(ge=10, le=SHARE_MAX)] = SHARE_SECONDS


class MadeShare(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    url: str
    expires: float


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    terminal: str
    created: float
    expires: float


@call("POST", "/terminals/{id}/share", right="all", body=NewShare, returns=MadeShare, status=201, optional_body=True)
async def share_terminal(asking: Asking) -> MadeShare:
    """A link to watch this terminal, and nothing else, until it expires."""
    place = await asking.site.order_terminals.find(asking.path("id"))
    seconds: float = asking.body.seconds
    made, code = await asyncio.to_thread(lambda: asking.site.tokens.share(place.id, started(place), seconds))
    return MadeShare(id=made.id, url=url(asking.site.address, code), expires=made.expires)


@call("GET", "/shares", right="all", returns=list[ShareRow])
async def list_shares(asking: Asking) -> list[ShareRow]:
    """The links to terminals that have not expired."""
    return [
        ShareRow(id=each.id, terminal=each.terminal, created=each.created, expires=each.expires)
        for each in asking.site.tokens.shares()
    ]


@call("DELETE", "/shares/{id}", right="all")
async def revoke_share(asking: Asking) -> None:
    """Take a link to a terminal back; who watches with it sees nothing more."""
    await asyncio.to_thread(asking.site.tokens.unshare, asking.path("id"))


def url(address: str, code: str) -> str:
    return f"{address}{SHARE_PAGE}#{code}"


def started(place: Place) -> str:
    """When its program was started, which tells it from a later one of the same name."""
    with Client(place.sock) as client:
        return str(client.detail()["started"])


async def watch(site: Site, gate: Gate, request: Request) -> Response:
    """`GET /share/screen`: the screen whole, then its changes, a JSON object in each line."""
    code = request.headers.get(HEADER, "")
    try:
        shared = await asyncio.to_thread(site.tokens.watcher, code)
        if shared is None:
            gate.note_failure(address_of(request.scope), code)
            raise RequestRefused(401, "unauthorized", "this link has expired, or was taken back")
        if site.streams >= STREAMS_MAX:
            raise RequestRefused(429, "too_many", "too many streams are open", after=5)
        place = await site.order_terminals.find(shared.terminal)
        if await asyncio.to_thread(started, place) != shared.started:
            raise NotFound("the program that was shared has ended")
        live = await site.screens.watch(shared.terminal)
    except TreadleError as error:
        return failure(error)
    return StreamingResponse(_lines(site, request, code, shared, live), media_type="application/x-ndjson")


async def _lines(
    site: Site, request: Request, code: str, shared: SharedTerminal, live: LiveScreen
) -> AsyncIterator[bytes]:
    at, checked = 0, time.monotonic()
    site.streams += 1
    try:
        while True:
            frame = live.frame(at)
            if "cols" in frame and (frame["rows"] or not at or frame["ended"] is not None):
                yield _line({"frame": frame, "until": shared.expires})
                at = frame["at"]
            if live.ended is not None or live.problem:
                return
            if time.monotonic() - checked >= CHECK_SECONDS:
                checked = time.monotonic()
                if await request.is_disconnected():
                    return
                if await asyncio.to_thread(site.tokens.watcher, code) is None:
                    yield _line({"over": "This link has expired, or was taken back."})
                    return
                yield b"\n"  # tells a watcher whose line is slow that we are there
            await asyncio.sleep(PAUSE)
    finally:
        site.streams -= 1
        site.screens.leave(live)


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
