"""`treadle fleet shell` and `attach`: terminals of orders, on whatever machine they are; `treadle top`."""

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
from functools import partial
from typing import Any, Literal, TypeAlias

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import ORDER
from treadle.errors import ConfigError, LocalError, TreadleError
from treadle.io.process.loop import run_async


@click.command("shell")
@click.argument("name", metavar=ORDER)
def shell(name: str) -> None:
    """Open a shell in an order's worktree, on the node that it is on. The order's receipt says that you did.

    Ctrl-\\ leaves it open and comes back here; the next `shell` of this order finds it again.
    """
    sys.exit(attach_order(name, "shell", read_only=False))


@click.command("attach")
@click.argument("name", metavar=ORDER)
@click.option("--read-only", is_flag=True, help="Only look: nothing that is typed here is sent.")
def attach(name: str, read_only: bool) -> None:
    """Show the terminal of an order that was given with --terminal, and type into it. Ctrl-\\ comes back here."""
    sys.exit(attach_order(name, "agent", read_only=read_only))


def attach_order(name: str, what: Literal["agent", "shell"], *, read_only: bool) -> int:
    """Show an order's terminal (`agent`) or a shell in its worktree (`shell`) here, until the person leaves it."""
    from treadle.terminal.places import Place
    from treadle.terminal.settings import AttachOptions
    from treadle.terminal.viewers.attach import attach as show

    if not os.isatty(0):
        raise ConfigError("this needs a terminal on standard input", hint="`treadle fleet logs` shows what happened")
    with tempfile.TemporaryDirectory(prefix="tf-") as directory:
        place = Place(directory, "order")
        carrier = _Carrier(name, what, place.sock)
        carrier.start()
        try:
            carrier.ready()
            return show(place, AttachOptions(read_only=read_only, prefix_key=0)) or 0
        finally:
            carrier.end()


class _Carrier(threading.Thread):
    """The connection to the fleet, in a thread of its own, because the main thread waits on the terminal."""

    def __init__(self, name: str, what: Literal["agent", "shell"], path: str) -> None:
        super().__init__(daemon=True)
        self._name, self._what, self._path = name, what, path
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None

    def ready(self) -> None:
        self._ready.wait()
        if self._problem is not None:
            raise self._problem

    def end(self) -> None:
        if self._loop is not None and self._over is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself, with a problem
                self._loop.call_soon_threadsafe(self._over.set)
        self.join(10.0)

    def run(self) -> None:
        try:
            run_async(self._carry())
        except TreadleError as error:
            self._problem = error
        finally:
            self._ready.set()

    async def _carry(self) -> None:
        from treadle.fleet import client
        from treadle.fleet.run.terminals import Carried

        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with client.connected() as bus:
            order = await client.get_order(bus, await client.resolve(bus, self._name))
            node = order.node or (order.attempts[-1].node if order.attempts else "")
            if not node:
                raise LocalError(f"the order {order.id} was on no node yet: it is {order.state}")
            carried = Carried(bus, node, order.id, self._what, client.me())
            await carried.try_once()
            serving: Any = await asyncio.start_unix_server(carried.carry, self._path)
            self._ready.set()
            async with serving:
                await self._over.wait()


COMMANDS = (shell, attach)


# `treadle top`: the fleet at a glance, in a terminal.

EVERY = 1.0
KEYS = "j k choose  y n answer  m say  t terminal  c cancel  l events  q leave"


@click.command("top")
@click.option("--once", is_flag=True, help="Print it once and end; so it does in a pipe.")
@json_option
def top(once: bool, as_json: bool) -> None:
    """Watch the fleet: who needs you, what works, waits, is done; answer, say something, cancel.

    \b
    j k  next, previous     y n  allow, deny      m  say something
    c    cancel             l    its events       q  leave
    t    its terminal, or a shell in its worktree; Ctrl-\\ comes back here
    """
    from treadle.cli.fleet.common import with_bus

    if once or as_json or not sys.stdout.isatty():
        from treadle.fleet.find import order_rows

        async def look(bus: Any) -> Any:
            return await order_rows.look(bus)

        found = with_bus(look)
        if as_json:
            return show_json({"head": found.head, "sections": dict(found.sections)})
        for line, _ in lines(found, 120):
            click.echo(line)
        return
    if os.environ.get("TERM", "dumb") == "dumb":
        raise ConfigError("this terminal cannot be drawn on", hint="treadle top --once")
    chosen, problem = "", ""
    while attachment := with_bus(partial(_watch, chosen=chosen, problem=problem)):
        chosen, problem = attachment[0], _attach(*attachment)


def _attach(name: str, what: Literal["agent", "shell"]) -> str:
    """Show its terminal until the person leaves it. Returns what went wrong."""

    try:
        attach_order(name, what, read_only=False)
    except TreadleError as error:
        return str(error)
    return ""


def lines(glance: Any, width: int) -> list[tuple[str, str]]:
    """Each line to show, with the order it is about."""
    from treadle.cli.fleet.common import age
    from treadle.cli.render import one_line

    found: list[tuple[str, str]] = []
    for title, rows in glance.sections:
        found.append((f"{title} ({len(rows)})", ""))
        for row in rows:
            state = f"  {row.word:10.10} {age(row.changed):>4}  {row.id:12.12}"
            found.append((f"{state}  {one_line(row.title)[:40]:40}  {one_line(row.now)}"[:width], row.id))
        found.append(("", ""))
    return found


Attachment: TypeAlias = tuple[str, Literal["agent", "shell"]]
"""An order, and what to show of it: its terminal (`agent`) or a `shell`."""


async def _watch(bus: Any, chosen: str, problem: str) -> Attachment | None:
    import curses

    screen = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        screen.keypad(True)
        screen.nodelay(True)
        try:
            curses.curs_set(0)
        except curses.error:
            pass  # a terminal whose cursor cannot be hidden
        return await _loop(bus, screen, chosen, problem)
    finally:
        curses.nocbreak()
        screen.keypad(False)
        curses.echo()
        curses.endwin()


async def _loop(bus: Any, screen: Any, chosen: str, problem: str) -> Attachment | None:
    from treadle.fleet import client
    from treadle.fleet.find import order_rows as glances

    loop = asyncio.get_running_loop()
    glance, due = await glances.look(bus), loop.time() + EVERY
    while True:
        if loop.time() >= due:
            try:
                glance = await glances.look(bus)
            except TreadleError as error:
                problem = error.message
            due = loop.time() + EVERY
        ids = [name for _, name in lines(glance, 200) if name]
        chosen = chosen if chosen in ids else (ids[0] if ids else "")
        _draw(screen, glance, chosen, problem)
        key = screen.getch()
        if key in (ord("q"), 27):
            return None
        if key == ord("t") and chosen:
            return chosen, "agent" if (await client.get_spec(bus, chosen)).terminal else "shell"
        if key in (ord("j"), 258, ord("k"), 259) and ids:
            step = 1 if key in (ord("j"), 258) else -1
            chosen = ids[max(0, min(len(ids) - 1, ids.index(chosen) + step))]
        elif key > 0 and chosen:
            problem = await _act(bus, screen, glance, chosen, chr(key) if key < 128 else "")
            due = 0.0
        else:
            await asyncio.sleep(0.05)


async def _act(bus: Any, screen: Any, glance: Any, name: str, key: str) -> str:
    from treadle.fleet import client

    row = next(row for _, rows in glance.sections for row in rows if row.id == name)
    try:
        if key in ("y", "n") and row.ask:
            decision = "allow" if key == "y" else "deny"
            await client.answer(bus, name, decision, number=row.ask.number)
            return f"{decision}: {row.now}"
        if key == "m":
            text = _typed(screen, f"say to {row.title[:30]}: ")
            if text:
                await client.say(bus, name, text)
                return "sent: it is queued until the agent's next step"
        elif key == "c" and _typed(screen, f"cancel {row.title[:30]}? type yes: ") == "yes":
            await client.cancel(bus, name)
            return "cancelled"
        elif key == "l":
            return f"treadle fleet logs -f {name}"
    except TreadleError as error:
        return str(error)
    return ""


def _typed(screen: Any, question: str) -> str:
    """A line typed by the person at the bottom of the screen."""
    import curses

    rows, cols = screen.getmaxyx()
    screen.move(rows - 1, 0)
    screen.clrtoeol()
    screen.addnstr(rows - 1, 0, question, cols - 1)
    screen.nodelay(False)
    curses.echo()
    try:
        found: bytes = screen.getstr(rows - 1, min(len(question), cols - 2), 2000)
    finally:
        curses.noecho()
        screen.nodelay(True)
    return found.decode("utf-8", "replace").strip()


def _draw(screen: Any, glance: Any, chosen: str, problem: str) -> None:
    import curses

    from treadle.cli.render import one_line

    rows, cols = screen.getmaxyx()
    shown = lines(glance, cols - 1)
    place = next((number for number, (_, name) in enumerate(shown) if name == chosen), 0)
    first = max(0, place - rows + 5)
    screen.erase()
    try:
        screen.addnstr(0, 0, one_line(glance.head), cols - 1, curses.A_BOLD)
        for number, (text, name) in enumerate(shown[first : first + rows - 3], 2):
            look = curses.A_REVERSE if name and name == chosen else curses.A_BOLD if not name else curses.A_NORMAL
            screen.addnstr(number, 0, text, cols - 1, look)
        screen.addnstr(rows - 1, 0, one_line(problem) or KEYS, cols - 1)
    except curses.error:
        pass  # the terminal is too small to draw on
    screen.refresh()
