"""Keeps the state from growing for ever: orders that ended long ago are removed, oldest first.

Of each, the order, its receipt, its questions, answers and messages go. A mark of some 100 bytes stays in place of the
order, so that a key that is repeated years later still makes no new order. An order that others wait for stays.
Only the scheduler removes: by itself when orders are older than `Control.keep_seconds` or the state is larger than
`Control.keep_bytes`, and when a person asks for it.
"""

import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from treadle.fleet.engine.bus import BATCH_MAX, STATE, Bus, Entry, Write
from treadle.fleet.orders import read_order
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.rows import Unit
from treadle.wire.fleet.records import Order

PAGE, READ = 200, 1000
"""How many orders are removed and read at a time; those read may include marks of orders just removed."""
OFTEN_SECONDS, SELDOM_SECONDS = 2.0, 60.0
LEAST_SECONDS = 86400.0
"""However large the state is, orders that ended within this time stay."""


class Cleaning:
    """The part of the scheduler that removes orders, a page at a time."""

    def __init__(self, bus: Bus, book: Book) -> None:
        self.bus = bus
        self.book = book
        self.next = 0.0

    async def step(self, now: float) -> None:
        if now < self.next:
            return
        self.next = now + SELDOM_SECONDS
        control, bus = self.book.control, self.bus
        size = int((await bus.api(f"STREAM.INFO.{STATE}"))["state"]["bytes"])
        oldest = LEAST_SECONDS if 0 < control.keep_bytes < size else control.keep_seconds
        if not oldest:
            return
        names = []
        async for order, _ in ended_before(bus, time.time() - oldest):
            names.append(order.id)
            if len(names) == PAGE:
                self.next = now + OFTEN_SECONDS
                break
        await self.remove(names)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove these orders in the next batch, except those that have not ended or are waited for."""
        book, bus = self.book, self.bus
        for name in names:
            if name in book.rows or name in book.units or waited_for(book, name):
                continue
            entry = await bus.get(f"order.{name}", latest=True)
            if entry is None or not read_order(entry).ended:
                continue
            rest = [key for key in await bus.keys(f"*.{name}.>") if not key.startswith("work.")]
            writes = [Write(key, purge=True) for key in rest[: BATCH_MAX // 2]]
            if len(rest) == len(writes):  # otherwise the order itself goes with the last of its records, another time
                writes += [Write(f"{kind}.{name}", purge=True) for kind in ("order", "receipt")]
                writes.append(Write(f"spec.{name}", purge=True, ttl=-1))
            book.units[name] = Unit(writes, None)


def waited_for(book: Book, name: str) -> bool:
    return any(child in book.rows for child in book.children.get(name, ()))


async def ended_before(bus: Bus, when: float) -> AsyncIterator[tuple[Order, Entry]]:
    """The orders that ended before this time, earliest change first."""
    start = 1
    while page := await bus.oldest("order.*", READ, start=start):
        for entry in page:
            order = read_order(entry)
            if order.changed >= when:
                return
            if order.ended:
                yield order, entry
        start = page[-1].revision + 1


async def records(bus: Bus, name: str) -> dict[str, Any]:
    """Everything stored about an order, by key."""
    keys = [f"{kind}.{name}" for kind in ("spec", "order", "receipt")]
    found = await bus.named([*keys, *(f"{kind}.{name}.*" for kind in ("ask", "answer", "say"))])
    return {key: msgspec.Raw(entry.value) for key, entry in sorted(found.items())}
