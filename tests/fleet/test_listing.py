"""The list of orders: the latest change first, filters before the count, and what no scheduler has seen yet."""

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import give, spec
from treadle.fleet import listing
from treadle.fleet.engine.bus import Bus
from treadle.fleet.listing import fitting, list_orders
from treadle.fleet.orders import encode
from treadle.wire.fleet.records import Order


def order(number: int, **fields: object) -> Order:
    return replace(Order(id=f"o{number}", state="done", changed=float(number)), **fields)


async def stored(bus: Bus, *orders: Order) -> None:
    for each in orders:
        await bus.put(f"order.{each.id}", encode(each))


async def ids(bus: Bus, **wanted: object) -> list[str]:
    return [each.id for each, _ in await list_orders(bus, **wanted)]  # type: ignore[arg-type]


def test_a_filter_wants_all_that_it_names_and_an_empty_one_everything() -> None:
    one = order(1, agent="native", labels=("gpu", "big"), project="shop", place="r")
    assert fitting()(one) and fitting(["done", "failed"], agent="native", label="big", project="shop", place="r")(one)
    for other in ({"states": ["failed"]}, {"agent": "nativ"}, {"label": "g"}, {"project": "sho"}, {"place": "x"}):
        assert not fitting(**other)(one), other  # type: ignore[arg-type]


async def test_the_latest_change_is_first_and_pages_go_on_from_a_position(bus: Bus) -> None:
    await stored(bus, *(order(number) for number in range(5)))
    await stored(bus, order(1, state="failed"))
    assert await ids(bus, count=3) == ["o1", "o4", "o3"]
    *_, (_, position) = await list_orders(bus, count=3)
    assert await ids(bus, count=3, before=position) == ["o2", "o0"]


async def test_what_fits_is_found_behind_pages_of_what_does_not(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    await stored(bus, order(0, project="p"), *(order(number) for number in range(1, 8)), order(8, project="p"))
    assert await ids(bus, project="p") == ["o8", "o0"] and await ids(bus, project="p", count=1) == ["o8"]
    await stored(bus, order(9))
    assert await ids(bus, project="p", count=1) == ["o8"]


async def test_active_ones_are_those_that_the_scheduler_has_not_ended(bus: Bus) -> None:
    await stored(bus, order(0, state="running"), order(1), order(2, state="queued"))
    for name in ("o0", "o2", "gone"):
        await bus.put(f"active.{name}", b"")
    assert await ids(bus, active=True) == ["o2", "o0"] and await ids(bus, active=True, states=["queued"]) == ["o2"]


async def test_an_order_that_no_scheduler_has_seen_is_listed_as_queued(bus: Bus) -> None:
    await stored(bus, order(0))
    (new,) = await give(bus, spec())
    found = {each.id: each.state for each, _ in await list_orders(bus)}
    assert found == {"o0": "done", new: "queued"}
    assert await ids(bus, states=["done"]) == ["o0"] and await ids(bus, count=1) == ["o0"]
