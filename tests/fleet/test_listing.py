"""The list of orders: the latest change first, filters before the count, and what no scheduler has seen yet."""

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import give, spec
from tests.fleet.engine.buses import StoringClient
from treadle.fleet import client
from treadle.fleet.client import fitting, list_orders
from treadle.fleet.engine.bus import Bus
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
    monkeypatch.setattr(client, "PAGE", 2)
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
    assert await ids(bus, before=await bus.last_revision() + 1) == ["o0"]
    await bus.put("spec.o0", b"no order")
    assert sorted(await ids(bus)) == sorted([new, "o0"]), "what a scheduler has seen is not read again"


async def test_no_more_is_read_than_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 3)
    there = StoringClient()
    bus = there.bus()
    await stored(bus, *(order(number, project="p" if number % 2 else "") for number in range(8)))

    async def pages(**wanted: object) -> tuple[list[str], int]:
        there.sent.clear()
        found = await ids(bus, **wanted)
        return found, len([sent for sent in there.sent if "next_by_subj" in sent.data.decode()])

    assert await pages(count=2) == (["o7", "o6"], 1)
    assert await pages(count=2, project="p") == (["o7", "o5"], 1)
    assert await pages(count=3, project="p") == (["o7", "o5", "o3"], 2)
    assert await pages(count=9, project="p") == (["o7", "o5", "o3", "o1"], 3)
    assert await pages(count=9) == ([f"o{number}" for number in range(7, -1, -1)], 2), "and what is not taken in yet"
    monkeypatch.setattr(client, "PAGES", 1)
    for wanted in ({"states": ["done"]}, {"agent": ""}, {"label": ""}, {"place": ""}):
        assert (await pages(count=4, **wanted))[0] == (
            ["o7", "o6", "o5"] if "states" in wanted else ["o7", "o6", "o5", "o4"]
        )
    for wanted in ({"agent": "x"}, {"label": "x"}, {"place": "x"}, {"project": "x"}):
        await bus.put("spec.new", encode(spec(id="new")))
        assert await pages(count=4, **wanted) == ([], 1)
    await bus.put("active.o3", b"")
    await bus.put("active.o5", b"")
    assert await ids(bus, active=True, count=1) == ["o5"] and await ids(bus, active=True) == ["o5", "o3"]
