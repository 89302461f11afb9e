"""Lists orders as they are stored, latest change first, a page at a time."""

import time
from collections.abc import Callable, Iterable

from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import begun, read_order, read_spec
from treadle.wire.fleet.records import Order

PAGE = 200
PAGES = 50


def fitting(
    states: Iterable[str] = (), *, agent: str = "", label: str = "", project: str = "", place: str = ""
) -> Callable[[Order], bool]:
    """Whether an order matches the filter; an empty field does not filter."""
    wanted = set(states)
    return lambda order: (
        (not wanted or order.state in wanted)
        and (not agent or order.agent == agent)
        and (not label or label in order.labels)
        and (not project or order.project == project)
        and (not place or order.place == place)
    )


async def list_orders(
    bus: Bus,
    *,
    count: int = 50,
    states: Iterable[str] = (),
    agent: str = "",
    label: str = "",
    project: str = "",
    place: str = "",
    active: bool = False,
    before: int | None = None,
) -> list[tuple[Order, int]]:
    """The orders that changed last, latest first, each with a position to continue from (`before`)."""
    wanted = set(states)
    fits = fitting(wanted, agent=agent, label=label, project=project, place=place)
    if active:
        names = [key.partition(".")[2] for key in await bus.keys("active.*")]
        entries = await bus.named([f"order.{name}" for name in names])
        orders = [(order, entry.revision) for entry in entries.values() if fits(order := read_order(entry))]
        return sorted(orders, key=lambda each: -each[1])[:count]
    found: list[tuple[Order, int]] = []
    filtered = bool(wanted or agent or label or project or place)
    for _ in range(PAGES):
        page = await bus.newest("order.*", PAGE if filtered else count, before=before)
        found += [(order, entry.revision) for entry in page if fits(order := read_order(entry))]
        if len(found) >= count or len(page) < (PAGE if filtered else count):
            break
        before = page[-1].revision
    if not filtered and before is None and len(found) < count:
        found += await _not_taken_in(bus, count, {order.id for order, _ in found})
    return found[:count]


async def _not_taken_in(bus: Bus, count: int, known: set[str]) -> list[tuple[Order, int]]:
    """Stored orders that no scheduler has seen yet."""
    return [
        (begun(read_spec(entry.value), time.time()), entry.revision)
        for entry in await bus.newest("spec.*", count)
        if entry.key.partition(".")[2] not in known
    ]
