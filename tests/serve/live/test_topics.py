"""What a tab follows: the newest first, then everything once, and never old states."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fleet.conftest import Start, give, spec, until_state
from tests.serve.conftest import WAIT, Follow, Web
from tests.serve.live.followed import numbers, write
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus, Entry
from treadle.serve.api.orders import Shown
from treadle.serve.live import socket
from treadle.serve.site import Site
from treadle.serve.tokens import Tokens


async def test_a_run_is_told_from_its_end_and_then_live_without_a_gap(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    for first in range(1, 1001, 10):
        await write(bus, name, first, 10)
    async with asyncio.timeout(WAIT):
        while web.server.site.fleet.require_index().event_count(name) < 1000:
            await asyncio.sleep(0.02)
    tab = await follow(web)
    await tab.sub(f"run:{name}")
    page = await tab.until(lambda message: message["t"] == f"run:{name}")
    assert page["reset"] and page["total"] == 1000 and page["before"]
    assert [each["n"] for each in page["events"]][-1] == 1000
    for first in range(1001, 1101, 10):
        await write(bus, name, first, 10)
    await tab.until(lambda message: 1100 in numbers([message], f"run:{name}"))
    seen = numbers(tab.seen, f"run:{name}")
    assert seen == list(range(seen[0], 1101))
    older = await web.get(f"/orders/{name}/events?before={page['before']}&count=50")
    assert older["events"][-1]["n"] == seen[0] - 1


async def test_a_board_that_is_as_it_was_is_not_sent_again(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())
    tab = SimpleNamespace(visible=True, wake=asyncio.Event())
    topic = socket.make(web.server.site, tab, "board", {})
    assert topic is not None
    await topic.open()
    async with asyncio.timeout(WAIT):
        while (first := await topic.message()) is None or name not in first["rows"]:
            await asyncio.sleep(0.02)
    assert await topic.message() is None
    web.server.site.board.counts = {"queued": 2}
    changed = await topic.message()
    assert changed is not None and changed["counts"] == {"queued": 2} and changed["rows"] == {}
    topic.close()


async def test_long_outputs_are_cut_and_say_how_long_they_are(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    await write(bus, name, 1, 1, text="x" * 1_000_000)
    tab = await follow(web)
    await tab.sub(f"run:{name}")
    message = await tab.until(lambda message: message["t"] == f"run:{name}" and message.get("events"))
    (shown,) = message["events"]
    assert len(shown["event"]["text"]) == 4096 and shown["cut"] == {"text": 1_000_000}
    whole = await web.get(f"/orders/{name}/event?seq={shown['seq']}&n=1")
    assert len(whole["text"]) == 1_000_000


async def test_a_table_of_orders_is_sent_by_the_window_that_is_looked_at(web: Web, bus: Bus, follow: Follow) -> None:
    await give(bus, *[spec(project="p" if number % 2 else "q") for number in range(40)])
    tab = await follow(web)
    await tab.sub("table", wanted={"project": "p"}, offset=5, count=10)
    counted = {"p": 20, "q": 20}
    table = await tab.until(lambda message: message["t"] == "table" and message["facets"].get("project") == counted)
    assert len(table["rows"]) == 10 and table["offset"] == 5 and table["total"] == 20


async def test_an_order_is_told_whole_whenever_it_changes(
    web: Web, bus: Bus, start_node: Start, follow: Follow
) -> None:
    (name,) = await give(bus, spec("null:60:600"))
    tab = await follow(web)
    await tab.sub(f"order:{name}")
    first = await tab.until(lambda message: message["t"] == f"order:{name}")
    assert first["detail"]["order"]["state"] == "queued"
    await client.say(bus, name, "be quick")
    said = await tab.until(lambda message: (message.get("detail") or {}).get("messages"))
    assert said["detail"]["messages"][0]["text"] == "be quick"
    await start_node()
    await until_state(bus, name, "running")
    await tab.until(lambda message: (message.get("detail") or {}).get("order", {}).get("state") == "running")


def events(text: str, *places: tuple[int, int]) -> list[Shown]:
    return [Shown(seq=seq, attempt=1, n=n, event={"text": text}) for seq, n in places]


def test_one_message_holds_the_newest_events_from_where_a_message_of_the_stream_begins() -> None:
    big, places = "x" * (socket.CHUNK // 2), ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))
    assert socket._newest(events("x", *places)) == events("x", *places)
    assert socket._newest(events(big, *places)) == events(big, *places)[4:]
    assert socket._newest(events(big, (1, 1), (2, 1), (2, 2))) == events(big, (2, 1), (2, 2)), "it is never cut in two"
    assert socket._newest([]) == []


async def test_a_run_is_told_in_pieces_and_one_who_is_far_behind_gets_the_newest_page(
    web: Web, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "BEHIND_MAX", 3)
    (name,) = await give(bus, spec())
    tab = SimpleNamespace(visible=True, wake=asyncio.Event())
    topic = socket.make(web.server.site, tab, f"run:{name}", {})
    assert isinstance(topic, socket.RunTopic)
    await topic.open()
    first = await topic.message()
    assert first is not None and first["reset"] and (first["events"], first["total"], first["before"]) == ([], 0, None)
    assert await topic.message() is None

    def come(seq: int, *numbers: int, order: str = name) -> None:
        said = [{"type": "message", "text": str(number)} for number in numbers]
        topic._on_events(order, seq, 1, {"n": numbers[0], "events": said})

    topic.dirty = False
    tab.wake.clear()
    come(5, 1, 2, order="another")
    assert not topic.dirty and not tab.wake.is_set()
    come(5, 1, 2)
    assert topic.dirty and tab.wake.is_set()
    made = await topic.message()
    assert made is not None and [each["n"] for each in made["events"]] == [1, 2] and made["after"] == 5
    monkeypatch.setattr(socket, "CHUNK", 1)
    come(6, 3, 4)
    topic.dirty = False
    made = await topic.message()
    assert made is not None and [each["n"] for each in made["events"]] == [3] and topic.dirty, "the rest comes later"
    come(7, 5, 6, 7)
    come(8, 8)
    come(9, 9)
    made = await topic.message()
    assert made is not None and made["reset"], "too much waits, so what is stored is told instead"
    topic.close()
    assert not web.server.site.fleet.feed.on_events  # type: ignore[union-attr]


async def test_a_table_shows_another_window_at_once_and_is_opened_anew_for_another_filter(web: Web, bus: Bus) -> None:
    names = await give(bus, *[spec(project="p") for _ in range(5)])
    index = web.server.site.fleet.require_index()
    async with asyncio.timeout(WAIT):
        while index.counts() != {"queued": 5}:
            await asyncio.sleep(0.01)
    tab = SimpleNamespace(visible=True, wake=asyncio.Event())
    topic = socket.make(web.server.site, tab, "table", {"wanted": {"project": "p"}, "offset": -3, "count": 2})
    assert isinstance(topic, socket.TableTopic)
    await topic.open()
    first = await topic.message()
    assert first is not None and (first["offset"], first["total"], len(first["rows"])) == (0, 5, 2)
    assert first["facets"]["project"] == {"p": 5} and await topic.message() is None
    topic.dirty, topic.sent_at = False, 5.0
    assert topic.adapt({"wanted": {"project": "p"}, "offset": 4}) and topic.dirty and topic.sent_at == 0.0
    second = await topic.message()
    assert second is not None and (second["offset"], len(second["rows"])) == (4, 1)
    assert {row["id"] for row in first["rows"] + second["rows"]} <= set(names) and second["facets"] == first["facets"]
    assert not topic.adapt({"wanted": {"project": "q"}})
    topic.adapt({"wanted": {"project": "p"}, "count": 1000})
    assert topic._count == 200
    topic.dirty = False
    topic._on_state([Entry("spec.x", b"{}", 1)], [])
    assert not topic.dirty
    topic._on_state([Entry("order.x", b"", 1)], [])
    assert topic.dirty, "one that was removed is not shown any more"
    topic.close()
    empty = socket.make(web.server.site, tab, "table", {"wanted": {"project": "none"}})
    assert empty is not None
    await empty.open()
    found = await empty.message()
    assert found is not None and (found["total"], found["rows"]) == (0, [])
    empty.close()


@pytest.mark.parametrize("name", ["nodes", "claims", "money", "trains", "goals"])
async def test_what_is_looked_at_is_sent_when_it_changed(web: Web, name: str) -> None:
    tab = SimpleNamespace(visible=True, wake=asyncio.Event())
    topic = socket.make(web.server.site, tab, name, {})
    assert topic is not None and topic.needs_fleet and topic.every
    await topic.open()
    first: Any = await topic.message()
    assert first is not None and (first["value"] == [] or set(first["value"]) == {"control", "spent"})
    assert await topic.message() is None
    assert not topic.adapt({})


async def test_terminals_need_no_fleet_and_a_topic_that_fails_says_so(tmp_path: Path) -> None:
    site, tab = Site("", str(tmp_path), Tokens()), SimpleNamespace(visible=True, wake=asyncio.Event())
    terminals, nodes = (socket.make(site, tab, name, {}) for name in ("terminals", "nodes"))
    assert terminals is not None and not terminals.needs_fleet and nodes is not None
    await terminals.open()
    await nodes.open()
    assert await socket.message_of(terminals) == {"value": []} and await socket.message_of(terminals) is None
    failed = await socket.message_of(nodes)
    assert failed is not None and failed["error"]["code"] == "no_fleet"
    assert socket.make(site, tab, "nothing", {}) is None and socket.make(site, tab, "nothing:x", {}) is None
    goal = socket.make(site, tab, "goal:a:b", {})
    assert goal is not None and goal.argument == "a:b"
    await site.close()
