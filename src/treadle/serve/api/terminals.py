"""Terminals: look, type, resize, end, and links to watch one. They need no fleet."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from treadle.errors import ConfigError, Denied, LocalError, NotFound, PeerStalled, TreadleError
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.envelope import RequestRefused, failure
from treadle.serve.gate import Gate, address_of
from treadle.serve.site import Site
from treadle.serve.tokens import SHARE_MAX, SHARE_PAGE, SHARE_SECONDS, SharedTerminal
from treadle.terminal import keyboard
from treadle.terminal.client import Client
from treadle.terminal.listing import rows
from treadle.terminal.places import Place
from treadle.terminal.viewers.live import LiveScreen
from treadle.terminal.viewers.screen import SCROLLBACK, snapshot, story

KEYS = {
    "Enter": b"\r",
    "Escape": b"\x1b",
    "Tab": b"\t",
    "BackTab": b"\x1b[Z",
    "Backspace": b"\x7f",
    "Delete": b"\x1b[3~",
    "Up": b"\x1b[A",
    "Down": b"\x1b[B",
    "Right": b"\x1b[C",
    "Left": b"\x1b[D",
    "Home": b"\x1b[H",
    "End": b"\x1b[F",
    "PageUp": b"\x1b[5~",
    "PageDown": b"\x1b[6~",
    "Space": b" ",
    **{f"C-{letter}": bytes((ord(letter) & 31,)) for letter in "abcdefghijklmnopqrstuvwxyz"},
}


class TerminalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    all: bool = False


@call("GET", "/terminals", query=TerminalsQuery, returns=list[dict[str, Any]])
async def list_terminals(asking: Asking) -> list[dict[str, Any]]:
    """The programs that are kept in terminals, with their states; with `all`, also those that have ended."""
    found = await asyncio.to_thread(rows, asking.site.terminals)
    return [row for row in found if row["alive"] or asking.query.all]


async def _place(asking: Asking) -> Place:
    return await asking.site.order_terminals.find(asking.path("id"))


@call("GET", "/terminals/{id}/screen", returns=dict[str, Any])
async def show_screen(asking: Asking) -> dict[str, Any]:
    """A terminal's screen as it is now, or as it was when the program ended."""
    return await asyncio.to_thread(snapshot, await _place(asking))


class ScrollbackQuery(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, Meta(ge=0, le=1 << 31)] | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 200


class Scrolled(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[str]
    first: int
    """The number of the first of these lines; pass it as `before` to get the page before."""
    total: int


@call("GET", "/terminals/{id}/scrollback", query=ScrollbackQuery, returns=Scrolled)
async def show_scrollback(asking: Asking) -> Scrolled:
    """A page of what has scrolled off a terminal's screen, from the end."""

    def look(place: Place) -> list[str]:
        with story(place).screen(SCROLLBACK) as screen:
            return screen.everything()

    lines = await asyncio.to_thread(look, await _place(asking))
    given: ScrollbackQuery = asking.query
    end = len(lines) if given.before is None else min(given.before, len(lines))
    first = max(0, end - given.count)
    return Scrolled(lines=lines[first:end], first=first, total=len(lines))


class Typing(RequestBody, frozen=True, kw_only=True):
    """Either a text as a person would type it, or single keys by name: Enter, Escape, Up, C-c..."""

    text: Annotated[str, Meta(max_length=500_000)] = ""
    enter: bool = False
    keys: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    anyway: bool = False
    """Type whatever the program is doing; otherwise a text never answers a dialog."""


@call("POST", "/terminals/{id}/input", right="all", body=Typing)
async def type_into_terminal(asking: Asking) -> None:
    """Type into a terminal. Refused (409) while the program asks something, with what it asks."""
    given: Typing = asking.body
    if bool(given.text or given.enter) == bool(given.keys):
        raise ConfigError("give either text or keys")
    unknown = [key for key in given.keys if key not in KEYS and len(key) != 1]
    if unknown:
        raise ConfigError(f"there is no key {unknown[0]!r}", hint=", ".join([*list(KEYS)[:15], "C-a ... C-z"]))
    place = await _place(asking)

    def work() -> None:
        with Client(place.sock) as client:
            if given.keys:
                return client.input(b"".join(KEYS.get(key) or key.encode() for key in given.keys))
            refused = keyboard.type_text(client, client.detail(), given.text.encode(), given.enter, given.anyway)
            if refused is not None:
                message = refused["state"].get("message") or ""
                raise LocalError(f"{place.id} is in the state {refused['why']!r}: nothing was typed. {message}".strip())

    try:
        await asyncio.to_thread(work)
    except PeerStalled:
        raise LocalError(f"{place.id} does not answer, so it is unknown whether the text was typed") from None


class NewSize(RequestBody, frozen=True, kw_only=True):
    cols: Annotated[int, Meta(ge=2, le=1000)]
    rows: Annotated[int, Meta(ge=2, le=500)]
    take: bool = False
    """Take control of the size from its holder; otherwise only the holder may change it."""


@call("POST", "/terminals/{id}/size", right="all", body=NewSize)
async def resize_terminal(asking: Asking) -> None:
    """Set a terminal's size. Only the viewer that controls the size may; `take` takes control."""
    given: NewSize = asking.body
    place = await _place(asking)
    holders = asking.site.size_holders
    if holders.get(place.id) != asking.device.id and not given.take:
        raise Denied(f"the size of {place.id} is set by another viewer", hint='send "take": true to change it')
    holders[place.id] = asking.device.id

    def work() -> None:
        with Client(place.sock) as client:
            client.hello()
            client.resize(given.cols, given.rows)
            client.status()

    await asyncio.to_thread(work)


@call("POST", "/terminals/{id}/stop", right="all", returns=dict[str, Any])
async def stop_terminal(asking: Asking) -> dict[str, Any]:
    """End a terminal's program and all that belongs to it."""
    place = await _place(asking)

    def work() -> dict[str, Any]:
        with Client(place.sock) as client:
            return client.stop()

    return await asyncio.to_thread(work)


class OpenedShell(msgspec.Struct, frozen=True):
    terminal: str
    """The name by which it is watched and typed into, like any other."""


@call("POST", "/orders/{id}/shell", right="all", returns=OpenedShell)
async def open_shell(asking: Asking) -> OpenedShell:
    """Open a shell in an order's worktree, on its node. The order's receipt will record it."""
    place = await asking.site.order_terminals.open(await asking.order(), "shell", asking.by)
    return OpenedShell(place.id)


# Links with which a person watches one terminal, without a token, until they expire. Nothing can be typed there.
#
# A link is for the program that ran when it was made: a later one of the same name is not shown. The code is in the
# fragment of the link, which no log sees; the page sends it in a header.

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
            raise RequestRefused(401, "unauthorized", "this link has expired, or was revoked")
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
                    yield _line({"over": "This link has expired, or was revoked."})
                    return
                yield b"\n"  # tells a watcher whose line is slow that we are there
            await asyncio.sleep(PAUSE)
    finally:
        site.streams -= 1
        site.screens.leave(live)


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
