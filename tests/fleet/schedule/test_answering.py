"""What the scheduler answers from memory: to runners, to nodes, and to people who ask."""

import asyncio
from typing import Any

import msgspec

from tests.fleet.schedule.test_book import book_with, spec
from treadle.fleet import session_keys
from treadle.fleet.schedule.answering import Answering
from treadle.fleet.schedule.placing import place_all
from treadle.wire.fleet.messages import FLEET_FORMAT, CancelOrder
from treadle.wire.fleet.records import Note


def answering(*names: str, slots: int = 2) -> Answering:
    book = book_with(*(spec(name) for name in names), slots=slots)
    place_all(book, 0.0)
    return Answering(book, "n1", 1.0, asyncio.Event())


async def beat(answers: Answering, subject: str, **said: Any) -> Any:
    found = await answers.beat(f"fleet.beat.{subject}", msgspec.json.encode(said))
    return msgspec.json.decode(found or b"")


async def ask(answers: Answering, what: str) -> Any:
    return msgspec.json.decode(await answers.ask(f"fleet.ask.{what}", b"") or b"")


async def test_only_the_attempt_that_the_order_is_at_holds_it() -> None:
    answers = answering("a")
    assert (await beat(answers, "n1.a.1", doing="model"))["holds"] is True
    assert answers.book.rows["a"].activity.doing == "model"
    for stranger in ("n1.a.2", "n2.a.1", "n1.unknown.1"):
        assert await beat(answers, stranger) == {"holds": False}


async def test_the_key_of_an_order_s_sessions_is_given_only_to_the_attempt_that_has_it() -> None:
    book = book_with(spec("a", continues="before"), spec("b"), slots=1)
    place_all(book, 0.0)
    answers = Answering(book, "n1", 1.0, asyncio.Event(), session_keys.new())
    given = await beat(answers, "n1.a.1.keys")
    assert set(given["keys"]) == {"a", "before"} and given["keys"]["a"] != given["keys"]["before"]
    for stranger in ("n1.a.2", "n2.a.1", "n1.b.1", "n1.unknown.1"):
        assert await beat(answers, f"{stranger}.keys") == {}
    assert answers.book.rows["a"].activity.doing == "", "asking for keys is no beat"


async def test_a_runner_is_paused_with_its_node_and_told_of_a_cancel() -> None:
    answers = answering("a")
    row = answers.book.rows["a"]
    assert (await beat(answers, "n1.a.1")).get("paused", False) is False
    answers.book.change_control(pauses={"node:n1": Note(at=1.0, by="ana", what="lunch")})
    assert (await beat(answers, "n1.a.1"))["paused"] is True
    answers.book.request(row, CancelOrder(order="a", by="ana", why="enough"))
    assert "enough" in (await beat(answers, "n1.a.1"))["cancel"]


async def test_a_node_that_has_more_room_wakes_the_scheduler_and_hears_what_it_holds() -> None:
    answers = answering("a", "b", slots=1)
    said = await beat(answers, "n1.node", slots=1, format=FLEET_FORMAT)
    assert said == {"scheduler": "n1", "holds": [["a", 1]], "refused": ""} and not answers.wake.is_set()
    await beat(answers, "n1.node", slots=2, format=FLEET_FORMAT)
    assert answers.wake.is_set()


async def test_who_asks_hears_why_orders_wait_and_how_many_there_are() -> None:
    answers = answering("a", "b", slots=1)
    assert (await ask(answers, "why.b"))["state"] == "queued" and await ask(answers, "why.none") == {}
    assert set(await ask(answers, "all")) == {"a", "b"}
    assert (await ask(answers, "status"))["orders"] == {"placed": 1, "queued": 1}
    assert (await ask(answers, "nodes"))[0]["at_work"] == ["a"]
    assert "error" in await ask(answers, "nonsense")


async def test_a_node_of_the_previous_release_is_refused_and_told_what_to_type() -> None:
    """It says no format. What it has goes on: its runners' reports are read as before."""
    answers = answering("a", "b", slots=1)
    said = await beat(answers, "old.node", slots=3, labels=["gpu"], agents=None, limits={}, leaving="", version="0.1.0")
    assert "treadle 0.1.0, which is too old: on old, type `pip install --upgrade treadle`" in said["refused"]
    place_all(answers.book, 0.0)
    assert answers.book.rows["b"].order.state == "queued"
    why = await ask(answers, "why.b")
    assert any("old takes nothing more: it runs treadle 0.1.0" in text for text in why["nodes"])
    assert "too old" in next(node["says"] for node in await ask(answers, "nodes") if node["name"] == "old")
    newer = await beat(answers, "new.node", slots=3, format=FLEET_FORMAT + 1, version="9.0")
    assert "upgrade treadle where the scheduler runs" in newer["refused"]
