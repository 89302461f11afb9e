"""What the scheduler answers from memory: to runners, to nodes, and to people who ask."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from tests.fleet.schedule.test_book import book_with, spec
from treadle.fleet.engine import places
from treadle.fleet.schedule.placing import place_all
from treadle.fleet.schedule.scheduler import Answering
from treadle.wire.fleet.messages import FLEET_FORMAT, CancelOrder, MachineSeen, RunAsked, RunEnded
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import AgentQuestion, Budget, Note, Park


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
    answers = Answering(book, "n1", 1.0, asyncio.Event(), places.new())
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


async def test_a_beat_tells_the_runner_all_that_holds_now_and_counts_what_it_used() -> None:
    book = book_with(
        spec("a", root="/r", claims=("x/**",), project="p", limits=OrderLimits(tokens=5)),
        spec("b", root="/r", claims=("y/**",)),
    )
    place_all(book, 0.0)
    answers = Answering(book, "n1", 1.0, asyncio.Event())
    await beat(answers, "n1.b.1", changed=["z.py", "w.py"])
    said = await beat(answers, "n1.a.1", changed=["z.py"], used={"input_tokens": 7})
    assert (said["state"], said["limits"], said["claims"]) == ("placed", {"tokens": 5}, {"b": ["y/**"]})
    assert not said.get("hold_until") and not said.get("cancel")
    assert book.control.budgets["project:p"].spent_tokens == 7 and book.rows["a"].order.counted.tokens == 7
    book.change_control(budgets={"fleet": Budget(tokens=5, spent_tokens=7)})
    assert (await beat(answers, "n1.a.1"))["paused"] is True
    book.change_control(budgets={}, pauses={"project:p": Note(at=1.0, by="ana", what="x")})
    assert (await beat(answers, "n1.a.1"))["paused"] is True and not (await beat(answers, "n1.b.1")).get("paused")
    later = time.time() + 60
    book.change_control(parks={"null": Park(until=later), "other": Park(until=later + 9)})
    assert (await beat(answers, "n1.a.1"))["hold_until"] == later
    book.change_control(parks={"null": Park(until=time.time() - 1)})
    assert not (await beat(answers, "n1.a.1")).get("hold_until")
    row, before = book.rows["a"], time.monotonic()
    assert row.heard <= before <= (await beat(answers, "n1.a.1") and row.heard)
    book.end(row, "done", "")
    assert await beat(answers, "n1.a.1") == {"holds": False}


async def test_what_a_node_says_of_itself_is_known_and_its_live_runners_are_seen() -> None:
    answers = answering("a", "b")
    runs = [["a", 1], ["b", 2], ["gone", 1]]
    fields = {"labels": ["gpu"], "agents": ["null"], "limits": {"agent": 3}, "machine": {"cpus": 8}, "runs": runs}
    before = time.monotonic()
    said = await beat(answers, "n1.node", slots=5, format=FLEET_FORMAT, leaving="it restarts", **fields)
    view = answers.book.nodes["n1"]
    assert (view.slots, view.labels, view.agents, view.limits) == (5, {"gpu"}, {"null"}, {"agent": 3})
    assert view.machine == MachineSeen(cpus=8) and view.leaving == "it restarts" and view.heard >= before
    assert answers.book.rows["a"].seen == view.heard and answers.book.rows["b"].seen == 0.0
    assert sorted(said["holds"]) == [["a", 1], ["b", 1]] and answers.wake.is_set()
    stranger = await beat(answers, "n2.node", slots=0, format=FLEET_FORMAT, runs=runs)
    assert stranger["holds"] == [] and answers.book.rows["a"].seen == view.heard
    assert answers.book.nodes["n2"].agents is None


async def test_a_full_node_that_shrinks_and_grows_back_to_full_wakes_no_one() -> None:
    answers = answering("a", "b", slots=2)
    for slots, woken in ((1, False), (2, False), (3, True)):
        await beat(answers, "n1.node", slots=slots, format=FLEET_FORMAT)
        assert answers.wake.is_set() is woken, slots


async def test_what_runs_is_told_with_what_is_known_of_it_and_what_is_parked_with_its_question() -> None:
    book = book_with(spec("a", root="/r", stall_seconds=9.0), spec("p", root="/r"), slots=2)
    place_all(book, 0.0)
    answers = Answering(book, "n1", 1.0, asyncio.Event())
    await beat(answers, "n1.a.1", doing="model", changed=["z"])
    await beat(answers, "n1.p.1", changed=["z"])
    found = await ask(answers, "why.a")
    assert (found["state"], found["node"], found["attempt"], found["lease"]) == ("placed", "n1", 1, book.lease)
    assert (found["stall"], found["activity"]["doing"]) == (9.0, "model")
    assert 0 <= found["heard_seconds_ago"] < 60 and not found.get("over_budget")
    row = book.rows["p"]
    book.started(row, 0.0)
    book.asked(row, RunAsked(order="p", attempt=1, ask=AgentQuestion(command="rm x", text="May it?"), nth=1))
    book.finished(row, RunEnded(order="p", attempt=1, outcome="parked"))
    parked = await ask(answers, "why.p")
    (asked,) = row.asks.values()
    assert parked["state"] == "asking" and parked["waits"] == {
        "kind": "asking",
        "text": "an answer: rm x; it has no runner meanwhile",
        "until": asked.deadline,
    }
    row.asks.clear()
    assert (await ask(answers, "why.p"))["waits"]["text"] == "an answer: ; it has no runner meanwhile"
    assert set(await ask(answers, "all")) == {"a", "p"}


@pytest.mark.parametrize(
    ("control", "says"),
    [
        ({}, "all slots are taken"),
        ({"drained": {"n1": Note(at=1.0, by="ana", what="x")}}, "drained by ana"),
        ({"pauses": {"node:n1": Note(at=1.0, by="ben", what="x")}}, "paused by ben"),
    ],
)
async def test_a_node_says_why_it_takes_nothing(control: dict[str, Any], says: str) -> None:
    answers = answering("a", slots=1)
    answers.book.change_control(**control)
    fields = {"labels": ["z", "b"], "agents": ["null", "claude"], "machine": {"cpus": 8}}
    await beat(answers, "n1.node", slots=1, format=FLEET_FORMAT, **fields)
    (node,) = await ask(answers, "nodes")
    assert node["says"] == says and node["alive"] is True and node["machine"] == {"cpus": 8}
    assert (node["labels"], node["agents"], node["slots"]) == (["b", "z"], ["claude", "null"], 1)
    answers.book.nodes["n1"].heard -= 100
    (node,) = await ask(answers, "nodes")
    assert node["says"] == "not heard for 100 s" and not node.get("alive") and not node.get("machine")


async def test_an_idle_node_says_whether_anything_waits() -> None:
    answers = answering(slots=2)
    await beat(answers, "n1.node", slots=2, format=FLEET_FORMAT)
    assert (await ask(answers, "nodes"))[0]["says"] == "nothing waits"
    answers.book.accept(spec("held", labels=("gpu",)), 0.0)
    assert "does not fit or may not start" in (await ask(answers, "nodes"))[0]["says"]
    status = await ask(answers, "status")
    assert (status["scheduler"], status["since"]) == ("n1", 1.0)


async def test_without_a_key_of_the_fleet_no_keys_are_given() -> None:
    assert await beat(answering("a"), "n1.a.1.keys") == {}
