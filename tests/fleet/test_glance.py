"""The fleet at a glance: each order is in one section, and what needs a person comes first."""

import time

import pytest
from msgspec.structs import replace

from treadle.fleet.engine.bus import Bus
from treadle.fleet.find import order_rows
from treadle.fleet.orders import encode
from treadle.wire.fleet.messages import NodeAnswer, RunActivity, Wait, Why
from treadle.wire.fleet.records import AskRecord, Order


async def stored(bus: Bus, *orders: Order) -> None:
    for each in orders:
        await bus.put(f"order.{each.id}", encode(each))
        if not each.ended:
            await bus.put(f"active.{each.id}", b"{}")
        if each.open_ask:
            number = int(each.open_ask.partition(".")[2])
            ask = AskRecord(
                order=each.id,
                number=number,
                command=f"make {each.id}",
                asked_at=1.0,
                deadline=number * 1.0,
                default="deny",
            )
            await bus.put(f"ask.{each.open_ask}", encode(ask))


async def scheduled(bus: Bus, whys: dict[str, Why], *nodes: NodeAnswer) -> None:
    """A scheduler that answers this."""

    async def answer(subject: str, data: bytes) -> bytes:
        return encode(whys if subject.endswith(".all") else nodes)

    await bus.serve("fleet.ask.*", answer)


async def test_each_order_is_in_one_section_and_who_asks_or_is_stuck_comes_first(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_rows, "DONE_SHOWN", 2)
    running = Order(id="works", state="running", changed=5.0, title="a title")
    await stored(
        bus,
        running,
        replace(running, id="placed", state="placed"),
        replace(running, id="quiet", changed=3.0),
        replace(running, id="silent", changed=9.0),
        replace(running, id="waits", state="queued", why="said before"),
        replace(running, id="poor", state="queued", changed=4.0),
        replace(running, id="later", state="asking", open_ask="later.8"),
        replace(running, id="sooner", state="asking", open_ask="sooner.7"),
        replace(running, id="broke", state="failed", changed=2.0, why="it broke"),
        replace(running, id="look", state="done", changed=6.0, result={"patch": "p", "stat": "+1 -0"}),
        *(replace(running, id=f"done{number}", state="done", result={"stat": "+2"}) for number in range(4)),
    )
    alive = {"state": "running", "node": "n1", "lease": 5.0, "heard_seconds_ago": 0.1}
    doing = RunActivity(doing="model", last_event=time.time())
    whys = {
        "works": Why(**alive, activity=doing),
        "quiet": Why(**alive, activity=replace(doing, last_event=1.0)),
        "silent": Why(**{**alive, "heard_seconds_ago": 60.0}, activity=doing),
        "poor": Why(state="queued", waits=Wait(kind="budget", text="all is spent")),
        "placed": Why(state="placed", waits=Wait(kind="slot", text="a slot")),
    }
    await scheduled(bus, whys, NodeAnswer(name="n1", alive=True), NodeAnswer(name="n2"))
    found = await order_rows.look(bus)
    parts = dict(found.sections)
    assert found.head == "treadle: 7 need you, nodes 1 of 2" and list(parts) == [
        "Needs you",
        "Working",
        "Waiting",
        "Done",
    ]
    assert [(row.id, row.word, row.now) for row in parts["Needs you"]] == [
        ("sooner", "asks", "make sooner"),
        ("later", "asks", "make later"),
        ("broke", "failed", "it broke"),
        ("quiet", "running", "model"),
        ("poor", "queued", "all is spent"),
        ("look", "to review", "+1 -0"),
        ("silent", "running", "model"),
    ]
    assert parts["Needs you"][0].ask is not None and parts["Needs you"][0].ask.number == 7
    assert sorted((row.id, row.now) for row in parts["Working"]) == [("placed", "a slot"), ("works", "model")]
    assert [(row.id, row.word, row.now) for row in parts["Waiting"]] == [("waits", "queued", "said before")]
    assert [(row.id, row.now, row.title, row.changed) for row in parts["Done"]] == [
        ("done3", "+2", "a title", 5.0),
        ("done2", "+2", "a title", 5.0),
    ]


async def test_what_is_at_work_is_shown_though_many_have_ended_since_and_none_twice(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_rows, "NEWEST", 2)
    old = Order(id="old", state="running", changed=1.0)
    await stored(bus, old, *(Order(id=f"o{number}", state="done", changed=2.0) for number in range(3)))
    await stored(bus, Order(id="new", state="queued", changed=3.0))
    parts = dict((await order_rows.look(bus)).sections)
    assert [[row.id for row in rows] for rows in parts.values()] == [[], ["old"], ["new"], ["o2"]]
