"""The socket of a tab: cursors go on, nothing is lost or told twice, and nobody who is slow costs others anything."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from tests.fleet.api.conftest import WAIT, Follow, StartWeb, Web
from tests.fleet.conftest import Start, give, spec, until_state
from treadle.fleet import client, places
from treadle.fleet.bus import Bus


async def write(bus: Bus, order: str, first: int, count: int, text: str = "") -> None:
    """Events as a runner writes them, without a runner."""
    said = [{"type": "message", "text": text or f"{first + number}", "seq": first + number} for number in range(count)]
    await bus.publish(f"fleet.ev.{order}.1.n1", msgspec.json.encode({"n": first, "events": said}))


def numbers(messages: list[dict[str, Any]], topic: str) -> list[int]:
    return [each["n"] for message in messages if message["t"] == topic for each in message.get("events", ())]


async def test_a_hello_says_which_server_this_is_and_beats_follow(web: Web, follow: Follow) -> None:
    tab = await follow(web)
    hello = await tab.until(lambda message: True)
    assert hello["t"] == "hello" and hello["boot"] == web.server.boot and hello["right"] == "all"
    assert hello["fleet"]["state"] == "up"
    await tab.until(lambda message: message["t"] == "beat")
    await tab.do(do="ping", n=7)
    assert (await tab.until(lambda message: message["t"] == "pong"))["n"] == 7


async def test_the_board_shows_who_needs_a_person_and_what_works(
    web: Web, bus: Bus, start_node: Start, follow: Follow
) -> None:
    await start_node(slots=1)
    tab = await follow(web)
    await tab.sub("board")
    first = await tab.until(lambda message: message["t"] == "board")
    assert first["full"]
    (name,) = await give(bus, spec("null:60:600"))
    (waits,) = await give(bus, spec())
    board = await tab.until(lambda message: name in message.get("sections", {}).get("working", ()))
    assert not board["full"] and name in board["rows"]
    told = await tab.until(lambda message: (message.get("rows") or {}).get(waits, {}).get("waits") == "slot")
    assert "slots of n1 are taken" in told["rows"][waits]["now"]
    await client.cancel(bus, name)
    ended = await tab.until(lambda message: (message.get("rows") or {}).get(name, {}).get("state") == "cancelled")
    assert name in ended["sections"]["done"]


async def test_a_run_is_told_from_its_end_and_then_live_without_a_gap(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    for first in range(1, 1001, 10):
        await write(bus, name, first, 10)
    async with asyncio.timeout(WAIT):
        while web.server.fleet_index().event_count(name) < 1000:
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


async def test_after_200_cuts_nothing_is_lost_and_nothing_comes_twice(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    stop = asyncio.Event()
    written = 0

    async def go_on() -> None:
        nonlocal written
        while not stop.is_set():
            await write(bus, name, written + 1, 3)
            written += 3
            await asyncio.sleep(0.002)

    writing = asyncio.create_task(go_on())
    seen: list[int] = []
    after = 0
    try:
        for _ in range(200):
            tab = await follow(web)
            await tab.sub(f"run:{name}", after=after)
            message = await tab.until(lambda message: message["t"] == f"run:{name}" and message.get("events"))
            after = message["after"]
            seen += [each["n"] for each in message["events"]]
            await tab.socket.close()
    finally:
        stop.set()
        await writing
    tab = await follow(web)
    await tab.sub(f"run:{name}", after=after)
    while not seen or seen[-1] < written:
        message = await tab.until(lambda message: message["t"] == f"run:{name}" and message.get("events"))
        seen += [each["n"] for each in message["events"]]
    assert seen == list(range(seen[0], written + 1))


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


async def test_beats_are_not_held_up_by_bulk(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    for first in range(1, 2001, 20):
        await write(bus, name, first, 20, text="y" * 3000)
    tab = await follow(web)
    await tab.sub(f"run:{name}", after=1)
    await tab.do(do="ping", n=1)
    await tab.until(lambda message: message["t"] == "pong")
    assert all(len(msgspec.json.encode(message)) < 160_000 for message in tab.seen)


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


async def test_nonsense_is_refused_and_the_tab_stays(web: Web, follow: Follow) -> None:
    tab = await follow(web)
    for text in ("{", "[]", '{"do": "fly"}', '{"do": "sub", "topic": "nothing"}', '{"do": "sub"}', "null", '"x"'):
        await tab.socket.send(text)
        await tab.until(lambda message: message["t"] == "refused")
    await tab.sub("order:nobody")
    assert (await tab.until(lambda message: message["t"] == "order:nobody"))["error"]["code"] == "not_found"
    await tab.sub("table", wanted={"states": 5})
    await tab.until(lambda message: message["t"] in ("table", "refused"))
    await tab.do(do="ping", n=2)
    await tab.until(lambda message: message["t"] == "pong")


async def test_one_who_does_not_read_holds_up_nobody(web: Web, bus: Bus, follow: Follow) -> None:
    deaf, awake = await follow(web, max_queue=1, close_timeout=0.5), await follow(web)
    (name,) = await give(bus, spec())
    await deaf.sub(f"run:{name}")
    await awake.sub(f"run:{name}")
    for first in range(1, 1001, 10):
        await write(bus, name, first, 10, text="z" * 2000)
    await awake.until(lambda message: 1000 in numbers([message], f"run:{name}"))


async def test_after_a_restart_of_the_server_a_tab_goes_on_from_its_place(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, follow: Follow, tmp_path: Path
) -> None:
    first = await serving(terminals=str(tmp_path))
    await first.until_up()
    (name,) = await give(bus, spec())
    await write(bus, name, 1, 5)
    tab = await follow(first)
    await tab.sub(f"run:{name}")
    page = await tab.until(lambda message: 5 in numbers([message], f"run:{name}"))
    await first.stop()
    await write(bus, name, 6, 5)
    second = await serving(terminals=str(tmp_path))
    await second.until_up()
    back = await follow(second)
    hello = await back.until(lambda message: message["t"] == "hello")
    assert hello["boot"] != first.server.boot
    await back.sub(f"run:{name}", after=page["after"])
    await back.until(lambda message: 10 in numbers([message], f"run:{name}"))
    assert numbers(back.seen, f"run:{name}") == [6, 7, 8, 9, 10]
