"""The board: who needs a person, and what works."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.fleet.conftest import Start, give, spec
from tests.serve.conftest import WAIT, Follow, Web
from tests.serve.test_order_index import order
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus, Entry
from treadle.fleet.orders import encode
from treadle.serve.api import board
from treadle.serve.api.board import Board
from treadle.serve.fleet_link import FleetLink
from treadle.serve.order_index import OrderIndex
from treadle.wire.fleet.messages import RunActivity, Wait, Why
from treadle.wire.fleet.records import AnswerRecord, AskRecord

Computed = Callable[[], Awaitable[None]]


@asynccontextmanager
async def board_of(*entries: Entry) -> AsyncIterator[tuple[Board, Computed]]:
    """The board of these orders, without an engine; and a function that waits until it was computed again."""
    link = FleetLink()
    link.bus = Bus(places.library().NATS(), "nats://127.0.0.1:1")
    link.index = OrderIndex(":memory:", "f")
    link.index.take_state(list(entries))
    made, done = Board(link), asyncio.Event()
    made.changed.add(done.set)
    made.start()

    async def computed() -> None:
        async with asyncio.timeout(WAIT):
            await done.wait()
        done.clear()

    try:
        yield made, computed
    finally:
        await made.close()


def question(name: str, revision: int, deadline: float) -> Entry:
    made = AskRecord(
        order=name, number=1, asked_at=1.0, deadline=deadline, default="deny", kind="shell", text="may I?", tool="bash"
    )
    return Entry(f"ask.{name}.1", encode(made), revision)


async def test_what_needs_a_person_comes_first_the_most_urgent_before_the_others() -> None:
    now = time.time()
    silent = RunActivity(doing="bash", since=5.0, last_event=1.0)
    entries = (
        order("late", 1, state="asking", open_ask="late.1"),
        question("late", 2, now + 500),
        order("soon", 3, state="asking", open_ask="soon.1"),
        question("soon", 4, now + 100),
        Entry("answer.soon.1", encode(AnswerRecord(decision="allow", by="Ana", at=2.0)), 5),
        order("unread", 6, state="asking", open_ask="unread.1"),
        order("failed", 7, state="failed", changed=20.0),
        order("broke", 8, state="queued", changed=10.0),
        order("review", 9, state="done", result={"patch": "p"}),
        order("stuck", 10, state="running", changed=2.0),
        order("gone", 11, state="running", changed=1.0),
        order("busy", 12, state="running"),
        order("waits", 13, state="queued"),
        order("ended", 14, state="done"),
    )
    async with board_of(*entries) as (made, computed):
        made.whys = {
            "broke": Why(state="queued", waits=Wait(kind="budget", text="the budget is spent", until=9.0)),
            "stuck": Why(state="running", activity=silent, heard_seconds_ago=1.0),
            "gone": Why(state="running", activity=silent, heard_seconds_ago=99.0),
            "busy": Why(state="running", activity=RunActivity(doing="model", since=now, last_event=now)),
            "waits": Why(state="placed", waits=Wait(kind="slot", text="an old answer")),
            "ended": Why(state="done", waits=Wait(kind="slot", text="what has ended waits for nothing")),
        }
        made.wake()
        await computed()
        needing = ["unread", "soon", "late", "broke", "failed", "review", "gone", "stuck"]
        assert made.sections == {"needs": needing, "working": ["busy"], "waiting": ["waits"], "done": ["ended"]}
        assert made.counts == {"asking": 3, "failed": 1, "queued": 2, "done": 2, "running": 3}
        assert made.more == {"needs": 0, "working": 0, "waiting": 0, "done": 0}
        rows = made.rows
    asked, answered = rows["soon"].ask, rows["soon"].answered
    assert asked is not None and (asked.number, asked.kind, asked.text, asked.tool) == (1, "shell", "may I?", "bash")
    assert answered is not None and answered.by == "Ana" and rows["late"].answered is None
    assert rows["unread"].ask is None and rows["busy"].ask is None
    assert (rows["broke"].now, rows["broke"].waits, rows["broke"].until) == ("the budget is spent", "budget", 9.0)
    assert [rows[name].needs for name in ("broke", "stuck", "gone", "busy")] == ["budget", "stalled", "lost", ""]
    assert (rows["stuck"].now, rows["stuck"].since, rows["stuck"].heard) == ("bash", 5.0, 1.0)
    assert "heard 1.0 s ago" in rows["stuck"].evidence and rows["busy"].verdict == "waiting for the provider"
    assert rows["waits"].now == rows["ended"].now == "", "what was known of another state is not shown"


async def test_a_section_shows_the_latest_and_says_how_many_more_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "SHOWN", 2)
    entries = [order(f"{state}{n}", n, state=state) for n, state in enumerate(("running", "queued", "failed") * 3, 1)]
    done = [order(f"done{n}", 100 + n, state="done") for n in range(board.DONE_SHOWN + 3)]
    async with board_of(*entries, *done) as (made, computed):
        made.on_state([], [])
        await computed()
        assert made.more == {"needs": 1, "working": 1, "waiting": 1, "done": 6}
        assert made.sections["working"] == ["running7", "running4"]
        assert set(made.sections["needs"]) == {"failed6", "failed9"}
        assert len(made.sections["done"]) == board.DONE_SHOWN


async def test_a_board_that_cannot_be_worked_out_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with board_of(order("a", 1)) as (made, computed):
        bus, made.fleet.bus = made.fleet.bus, None
        made.wake()
        await computed()
        assert "the board cannot be worked out" in caplog.text and made.rows == {}
        made.fleet.bus = bus
        made.wake()
        await computed()
        assert list(made.rows) == ["a"]


async def test_the_board_shows_who_needs_a_person_and_what_works(
    web: Web, bus: Bus, start_node: Start, follow: Follow
) -> None:
    await start_node(slots=1)
    tab = await follow(web)
    await tab.sub("board")
    first = await tab.until(lambda message: message["t"] == "board")
    assert first["full"]
    (name,) = await give(bus, spec("null:60:600", claims=("src/**",)))
    (waits,) = await give(bus, spec())
    board = await tab.until(lambda message: name in message.get("sections", {}).get("working", ()))
    assert not board["full"] and name in board["rows"]
    told = await tab.until(lambda message: (message.get("rows") or {}).get(waits, {}).get("waits") == "slot")
    assert "slots of n1 are taken" in told["rows"][waits]["now"]
    (held,) = await web.get("/claims")
    assert (held["order"], held["claims"], held["waits_for"], held["text"]) == (name, ["src/**"], "", "")
    await client.cancel(bus, name)
    ended = await tab.until(lambda message: (message.get("rows") or {}).get(name, {}).get("state") == "cancelled")
    assert name in ended["sections"]["done"]
