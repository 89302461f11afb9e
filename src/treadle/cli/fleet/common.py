"""What the fleet's commands share."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import one_line, short_time
from treadle.fleet.client import connected, resolve
from treadle.io.process.loop import run_async

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus
    from treadle.wire.fleet.records import AskRecord

T = TypeVar("T")
FAILED, CANCELLED, LATE = 3, 4, 124
ORDER = "ORDER"


def with_bus(work: Callable[[Bus], Awaitable[T]]) -> T:
    """Call `work` with a connection to this machine's fleet."""

    async def run() -> T:
        async with connected() as bus:
            return await work(bus)

    try:
        return run_async(run())
    except KeyboardInterrupt:
        sys.exit(130)


def with_order(name: str, work: Callable[[Bus, str], Awaitable[T]]) -> T:
    """Call `work` for the order that this name means, which may be shortened."""

    async def resolved(bus: Bus) -> T:
        return await work(bus, await resolve(bus, name))

    return with_bus(resolved)


Resolve: TypeAlias = Callable[["Bus", str], Awaitable[str]]


def fleet_command(
    name: str, show: Callable[[Any], object] | None = None, of: Resolve | None = None, metavar: str = ORDER
) -> Callable[[Callable[..., Awaitable[Any]]], click.Command]:
    """Declare a command that is one coroutine: it is given the bus, what `of` makes of a first argument, and the rest.

    What it returns is printed as JSON with `--json`, and by `show` without; nothing is, if there is no `show`.
    """

    def declared(work: Callable[..., Awaitable[Any]]) -> click.Command:
        @wraps(work)
        def run(as_json: bool, **given: Any) -> None:
            async def resolved(bus: Bus) -> Any:
                first = [await of(bus, given.pop("name"))] if of is not None else []
                return await work(bus, *first, **given)

            found = with_bus(resolved)
            if as_json:
                show_json(found)
            elif show is not None:
                show(found)

        command = click.command(name)(json_option(run))
        command.params.append(command.params.pop(0))  # --json is the last one
        if of is not None:
            command.params.insert(0, click.Argument(["name"], metavar=metavar))
        return command

    return declared


def exit_code(state: str) -> int:
    return {"done": 0, "cancelled": CANCELLED, "skipped": CANCELLED}.get(state, FAILED)


def age(then: float) -> str:
    return short_time(max(0.0, time.time() - then))


def table(rows: list[list[str]]) -> None:
    """A table: columns are as wide as they need to be, and the last one is not padded."""
    if not rows:
        return
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())


def money(used: Any) -> str:
    """Tokens, and the cost where the price is known."""
    if not used.tokens:
        return "-"
    tokens = f"{used.tokens / 1000:.1f}k" if used.tokens >= 1000 else str(used.tokens)
    return f"{tokens} {'?' if used.usd is None else f'{used.usd:.2f}'} USD"


def tell_asking(ask: AskRecord) -> None:
    """Say on stderr that an order asks, and how to answer, while one waits for its end."""
    click.echo(f"{ask.order} asks: {one_line(ask.words)[:400]}", err=True)
    click.echo(f"    treadle fleet answer {ask.order} allow|deny   ({ask.default} by itself at its deadline)", err=True)
