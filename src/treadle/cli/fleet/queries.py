"""`treadle fleet ls`, `show`, `logs`, `explain` and `wait`: looking at orders."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.chat.page import Page
from treadle.cli.fleet.common import (
    LATE,
    ORDER,
    age,
    exit_code,
    fleet_command,
    money,
    order_named,
    table,
    tell_asking,
    with_bus,
    with_order,
)
from treadle.cli.render import colourful, one_line, printable
from treadle.errors import TimedOut
from treadle.io.tasks import end_tasks

# `treadle fleet ls`, `show`, `logs`, `explain`, `wait`: looking at orders.


@click.command("ls")
@click.option("-n", "--count", default=50, show_default=True, help="Maximum number of results.")
@click.option("--state", "states", multiple=True, metavar="S", help="queued, placed, running, asking, done, failed...")
@click.option("--agent", default="", metavar="NAME", help="Only orders of this agent.")
@click.option("--label", default="", metavar="L", help="Only orders with this label.")
@click.option("--project", default="", metavar="NAME", help="Only orders of this project.")
@click.option("--active", is_flag=True, help="Only orders that have not ended.")
@click.option("--helpers", is_flag=True, help="Also list the orders that trains create for checks and fixes.")
@click.option("--watch", is_flag=True, help="Keep running and print a line for each change.")
@json_option
def ls(as_json: bool, watch: bool, helpers: bool, **options: Any) -> None:
    """List orders, the last changed first. An order has one row from submission until it lands."""
    from treadle.fleet import client
    from treadle.fleet.engine.bus import Bus
    from treadle.fleet.orders import read_order
    from treadle.landing.views import all_changes

    async def work(bus: Bus) -> list[Any]:
        start = await bus.last_revision() + 1 if watch else 0
        found = await client.list_orders(bus, helpers=helpers, **options)
        on_its_way.update(await all_changes(bus))
        if not watch:
            return [order for order, _ in found]
        fits = client.fitting(**{name: options[name] for name in ("states", "agent", "label", "project")})
        oldest_first = [order for order, _ in reversed(found)]
        if not as_json:
            _table(oldest_first, on_its_way)
        for order in oldest_first if as_json else ():
            click.echo(msgspec.json.encode(order))
        sys.stdout.flush()
        async for entry in client.changes(bus, start=start):
            order = read_order(entry)
            if not fits(order) or order.helps and not helpers:
                continue
            if as_json:
                click.echo(msgspec.json.encode(order))
            else:
                click.echo(f"{time.strftime('%H:%M:%S')}  {order.id}  {order.state:9}  {one_line(order.title)}")
            sys.stdout.flush()
        return []

    on_its_way: dict[str, Any] = {}
    orders = with_bus(work)
    if as_json:
        from treadle.landing.views import standing_of

        stands = [standing_of(order, on_its_way)[0] for order in orders]
        show_json(
            [{**msgspec.to_builtins(order), "standing": state} for order, state in zip(orders, stands, strict=True)]
        )
    else:
        _table(orders, on_its_way)


def _table(orders: list[Any], on_its_way: Mapping[str, Any]) -> None:
    from treadle.landing.views import standing_of

    if not orders:
        click.echo("There are no such orders.", err=True)
        return
    rows = [["ORDER", "STATE", "AGE", "AGENT", "NODE", "TRY", "USED", "TITLE"]]
    for order in orders:
        state, why = standing_of(order, on_its_way)
        state += "!" if state == "asking" else ""
        place = [order.id, state, age(order.changed), order.agent[:20], order.node or "-", str(order.attempt)]
        rows.append([*place, money(order.used), order.title[:70]])
        if why and state not in ("done", "running"):
            rows[-1][-1] += f"  ({one_line(why)[:200]})"
    table(rows)


def _show_order(found: dict[str, Any]) -> None:
    spec, order = found["spec"], found["order"]
    click.echo(f"{order['id']}  {order['state']}" + (f": {order['why']}" if order.get("why") else ""))
    click.echo(f"task      {printable(spec['task'])}")
    for name_ in ("agent", "model", "root", "base", "claims", "verify", "labels", "after"):
        if spec.get(name_):
            value = spec[name_]
            click.echo(f"{name_:9} {', '.join(value) if isinstance(value, list | tuple) else value}")
    for attempt in order.get("attempts", ()):
        click.echo(f"attempt   {_attempt(attempt)}")
        for line in attempt.get("output", "").strip().splitlines()[-SHOWN_LINES:]:
            click.echo(f"          | {printable(line)}")
    for note in order.get("notes", ()):
        at = time.strftime("%H:%M:%S", time.localtime(note["at"]))
        click.echo(f"note      {at} {note['by']}: {one_line(note['what'])}")
    for message in found["messages"]:
        click.echo(f"message   [{message['state']}] {message['by']}: {one_line(message['text'])}")
    for key, value in order.get("result", {}).items():
        if value not in (None, "", []) and key != "capsule" and value != spec.get(key):
            click.echo(f"{key:9} {one_line(_plain(value))[:300]}")
    if found["receipt"]:
        for given in found["receipt"].get("approvals", ()):
            click.echo(f"answered  {given['decision']} by {given['by']}: {one_line(given['text'])[:100]}")
        click.echo(f"receipt   sha256 {found['receipt']['sha256']}")
    waits = (found.get("why") or {}).get("waits")
    if waits:
        click.echo(f"waits     {waits['text']}")


@fleet_command("show", _show_order, of=order_named)
async def show(bus: Any, order: str) -> Any:
    """Show an order: its task, state, attempts and result."""
    from treadle.fleet import client

    return await client.show(bus, order)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


SHOWN_LINES = 10
"""How much is shown of what a failed `verify` printed."""
WENT_ON = {"session": ", in the session of the one before", "brief": ", with a brief of what was done"}


def _attempt(attempt: dict[str, Any]) -> str:
    by = f" by {attempt['agent']}" if attempt.get("agent") else ""
    text = f"{attempt['number']}{by} on {attempt['node']}{WENT_ON.get(attempt.get('resumed', ''), '')}"
    if attempt.get("ended"):
        text += f", {attempt.get('outcome', '').replace('_', ' ')} after {attempt['ended'] - attempt['placed']:.1f} s"
    return text + (f": {one_line(attempt['why'])}" if attempt.get("why") else "")


@click.command("logs")
@click.argument("name", metavar=ORDER)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the order has ended.")
@click.option("--from", "start", default=1, metavar="SEQ", help="Start at this position (`at` in --json).")
@json_option
def logs(name: str, follow: bool, start: int, as_json: bool) -> None:
    """Show the events of an order's runs, all attempts in sequence. --json prints one event per line."""
    from treadle.fleet import client
    from treadle.fleet.engine.bus import Bus

    async def work(bus: Bus) -> None:
        order = await client.resolve(bus, name)
        show = _Shown(as_json, start)
        if not follow:
            async for seen in client.events(bus, order, start=start):
                show(seen)
            return
        await _follow(bus, order, show)

    with_bus(work)


async def _follow(bus: Any, order: str, show: _Shown) -> None:
    """Print until the order has ended and all of its events were shown."""
    from treadle.fleet import client

    async def read() -> None:
        async for seen in client.events(bus, order, start=show.at, follow=True):
            show(seen)

    reading = asyncio.create_task(read())
    try:
        await client.wait(bus, order, asking=tell_asking)
    finally:
        await end_tasks(reading)
    async for seen in client.events(bus, order, start=show.at):
        show(seen)


class _Shown:
    def __init__(self, as_json: bool, start: int) -> None:
        self.at = start
        self._as_json = as_json
        columns = shutil.get_terminal_size().columns
        self._page = Page(lambda: columns, colour=colourful(sys.stdout), flowing=True)
        self._attempt = 0

    def __call__(self, seen: Any) -> None:
        from treadle.events import AnyEvent

        self.at = seen.at
        if self._as_json:
            click.echo(msgspec.json.encode(seen))
            return
        if seen.attempt != self._attempt:
            self._attempt = seen.attempt
            click.echo(f"-- attempt {seen.attempt} --")
        if seen.gap:
            click.echo(f"-- {seen.gap} events are missing here --")
        if seen.end:
            click.echo(f"-- {one_line(seen.end)} --")
            return
        try:
            click.echo(self._page.feed(msgspec.convert(seen.event, AnyEvent)), nl=False)
        except msgspec.ValidationError:
            click.echo(one_line(str(seen.event)))


@click.command("explain")
@click.argument("name", metavar=ORDER)
@json_option
def explain(name: str, as_json: bool) -> None:
    """Show why an order waits, what it is doing and the evidence, or its progress towards a branch."""
    from treadle.fleet import client
    from treadle.fleet.schedule import liveness
    from treadle.fleet.schedule.book import handing_words
    from treadle.landing import views

    async def work(bus: Any, order: str) -> tuple[Any, list[str]]:
        why = await client.why(bus, order)
        lands = await views.explained(bus, order) if why.state == "done" else []
        lines = [line for each in lands for line in each["lines"]]
        lines += [f"changed   {handing_words(each)}" for each in (await client.get_order(bus, order)).handed]
        if why.state == "done" and not lines:
            lines = [f"landing   {await views.not_in_a_train(bus, order)}"]
        return liveness.judged(why), lines

    found, lines = with_order(name, work)
    if as_json:
        return show_json(found)
    for line in [*liveness.as_lines(found), *lines]:
        click.echo(line)


@click.command("wait")
@click.argument("names", metavar="ORDER...", nargs=-1, required=True)
@click.option("--or-asks", is_flag=True, help="Stop waiting when an order asks a question; it counts as exit code 0.")
@click.option("--timeout", type=float, metavar="S", help="Give up after this time (exit code 124).")
@json_option
def wait(names: tuple[str, ...], or_asks: bool, timeout: float | None, as_json: bool) -> None:
    """Wait until these orders have ended. The exit code shows the result."""
    from treadle.fleet import client
    from treadle.fleet.engine.bus import Bus

    async def work(bus: Bus) -> list[Any]:
        found = [await client.resolve(bus, name) for name in names]
        waits = (client.wait(bus, name, timeout, tell_asking, or_asks=or_asks) for name in found)
        return list(await asyncio.gather(*waits))

    try:
        ended = with_bus(work)
    except TimedOut as error:
        click.echo(f"treadle: {error}", err=True)
        sys.exit(LATE)
    if as_json:
        show_json(ended)
    else:
        _table(ended, {})
    sys.exit(max(exit_code(order.state) if order.ended else 0 for order in ended))


COMMANDS = (ls, show, logs, explain, wait)
