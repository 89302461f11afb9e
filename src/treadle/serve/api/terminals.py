"""Terminals: look, type, resize, end. They need no fleet."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from treadle.errors import ConfigError, Denied, LocalError, PeerStalled
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.terminal import typing
from treadle.terminal.client import Client
from treadle.terminal.listing import rows
from treadle.terminal.places import Place
from treadle.terminal.screen import SCROLLBACK, snapshot, story

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
        raise ConfigError("there is nothing to type, or text and keys at once")
    unknown = [key for key in given.keys if key not in KEYS and len(key) != 1]
    if unknown:
        raise ConfigError(f"there is no key {unknown[0]!r}", hint=", ".join([*list(KEYS)[:15], "C-a ... C-z"]))
    place = await _place(asking)

    def work() -> None:
        with Client(place.sock) as client:
            if given.keys:
                return client.input(b"".join(KEYS.get(key) or key.encode() for key in given.keys))
            refused = typing.type_text(client, client.detail(), given.text.encode(), given.enter, given.anyway)
            if refused is not None:
                message = refused["state"].get("message") or ""
                raise LocalError(f"{place.id} is in the state {refused['why']!r}: nothing was typed. {message}".strip())

    try:
        await asyncio.to_thread(work)
    except PeerStalled:
        raise LocalError(f"{place.id} does not answer, so no one knows whether it was typed") from None


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
        raise Denied(f"the size of {place.id} is not yours to change", hint='send "take": true to take it')
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
