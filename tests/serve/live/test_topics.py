"""What a tab follows: the newest first, then everything once, and never old states."""

import asyncio
from types import SimpleNamespace

from tests.fleet.conftest import Start, give, spec, until_state
from tests.serve.conftest import WAIT, Follow, Web
from tests.serve.live.followed import numbers, write
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve.live import topics


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
    topic = topics.make(web.server.site, tab, "board", {})
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
