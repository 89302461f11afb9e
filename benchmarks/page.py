"""The page: what it weighs and when it paints, a table of many orders while it is scrolled, a long run while it is
opened, and what watchers cost the server.

It runs a fleet and the page's server of its own, and Chromium. BENCH_PAGE_ORDERS, BENCH_PAGE_EVENTS and
BENCH_PAGE_WATCHERS set other sizes than 100,000 orders, 50,000 events and 200 watchers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from typing import Any

import msgspec

from treadle.fleet import client, up
from treadle.fleet.api import background
from treadle.fleet.api.tokens import Tokens
from treadle.fleet.bus import Bus
from treadle.fleet.orders import Spec, new_id

ORDERS = int(os.environ.get("BENCH_PAGE_ORDERS", "100000"))
EVENTS = int(os.environ.get("BENCH_PAGE_EVENTS", "50000"))
WATCHERS = int(os.environ.get("BENCH_PAGE_WATCHERS", "200"))
RATE, SECONDS = 20_000, 5
FRAMES = """async () => {
  const port = document.querySelector(".viewport"), times = [];
  const until = performance.now() + 4000;
  let last = performance.now();
  while (performance.now() < until) {
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - last);
    last = performance.now();
    port.scrollTop += 400;
  }
  return times.length / 4;
}"""


def rss(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


async def paint(browser: Any, address: str) -> Any:
    """First paint, requests and bytes of five fresh browsers; gives a signed-in one."""
    figures, context = [], None
    for _ in range(5):
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        page = await context.new_page()
        sizes: list[int] = []
        page.on("requestfinished", lambda request, sizes=sizes: sizes.append(1))
        await page.goto(f"{address}/#{Tokens().link('', 'all')}")
        await page.wait_for_selector("#pill.live")
        found = await page.evaluate(
            """() => [performance.getEntriesByName("first-contentful-paint")[0].startTime,
              performance.getEntriesByType("resource").reduce((sum, each) => sum + each.encodedBodySize, 0)
              + performance.getEntriesByType("navigation")[0].encodedBodySize]"""
        )
        figures.append((*found, len(sizes)))
    first, size, requests = (statistics.median(each) for each in zip(*figures, strict=True))
    print(f"first paint {first:.0f} ms, {size / 1000:.1f} KB compressed, {requests:.0f} requests (goal: 200, 60, 15)")
    return context


async def many_orders(bus: Bus, context: Any, address: str) -> None:
    began = time.perf_counter()
    for start in range(0, ORDERS, 500):
        made = [
            Spec(id=new_id(), task=f"order {number}", agent="null", project=f"p{number % 40}", labels=("nowhere",))
            for number in range(start, min(ORDERS, start + 500))
        ]
        await client.submit(bus, made)
    print(f"{ORDERS} orders given in {time.perf_counter() - began:.0f} s")
    page = await context.new_page()
    await page.goto(f"{address}/#/orders")
    await page.wait_for_selector(".cells:not(.head)", timeout=120_000)
    session = await context.new_cdp_session(page)
    await session.send("Performance.enable")
    before = await metrics(session)
    frames = await page.evaluate(FRAMES)
    after = await metrics(session)
    busy = (after["TaskDuration"] - before["TaskDuration"]) / (after["Timestamp"] - before["Timestamp"])
    heap = after["JSHeapUsedSize"] / 1e6
    print(f"scrolled: {frames:.0f} frames/s, {busy:.0%} of the main thread, heap {heap:.0f} MB (goal: 60, 10 %, 25)")
    await page.close()


async def metrics(session: Any) -> dict[str, float]:
    found = await session.send("Performance.getMetrics")
    return {each["name"]: each["value"] for each in found["metrics"]}


async def long_run(bus: Bus, context: Any, address: str) -> None:
    order = new_id()
    await client.submit(bus, [Spec(id=order, task="a long run", agent="null", labels=("nowhere",))])
    for first in range(1, EVENTS + 1, 200):
        events = [{"type": "message", "text": f"line {first + step}"} for step in range(200)]
        await bus.publish(f"fleet.ev.{order}.1.bench", msgspec.json.encode({"n": first, "events": events}))
    page = await context.new_page()
    await page.goto(f"{address}/#/")
    await page.wait_for_selector("#pill.live")
    await asyncio.sleep(3)
    times = []
    for _ in range(5):
        await page.goto(f"{address}/#/nodes")
        await page.wait_for_selector("h1")
        began = time.perf_counter()
        await page.evaluate(f"location.hash = '#/order/{order}'")
        await page.wait_for_selector(".events li", timeout=60_000)
        times.append((time.perf_counter() - began) * 1000)
    print(f"a run of {EVENTS} events opens in {statistics.median(times):.0f} ms (goal: 300)")
    await page.close()


async def watchers(bus: Bus, note: Any) -> None:
    from websockets.asyncio.client import connect

    order = new_id()
    await client.submit(bus, [Spec(id=order, task="watched", agent="null", labels=("nowhere",))])
    headers = {"authorization": f"Bearer {Tokens().make('bench', 'all')[1]}"}
    url = note.address.replace("http", "ws") + "/socket"
    idle = rss(note.pid)
    late: list[float] = []

    async def follow(first: bool) -> None:
        async with connect(url, additional_headers=headers, proxy=None, max_size=None, open_timeout=60) as socket:
            for topic in ("board", f"run:{order}") if first else ("board",):
                await socket.send(msgspec.json.encode({"do": "sub", "topic": topic, "params": {}}).decode())
            async for text in socket:
                now = time.time()
                message = msgspec.json.decode(text)
                if first and str(message.get("t", "")).startswith("run:") and not message.get("reset"):
                    late.extend(now - each["event"]["ts"] for each in message["events"] if "ts" in each["event"])

    tasks = [asyncio.create_task(follow(number == 0)) for number in range(WATCHERS)]
    await asyncio.sleep(5)
    number, began = 1, time.perf_counter()
    for step in range(SECONDS * 50):
        size = RATE // 50
        events = [{"type": "message", "text": "x", "ts": time.time()} for _ in range(size)]
        await bus.publish(f"fleet.ev.{order}.1.bench", msgspec.json.encode({"n": number, "events": events}))
        number += size
        await asyncio.sleep(max(0.0, began + (step + 1) / 50 - time.perf_counter()))
    took = time.perf_counter() - began
    await asyncio.sleep(1)
    busy = rss(note.pid)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(f"{WATCHERS} watchers: server {idle:.0f} MB, then {busy:.0f} MB (goal: 90)")
    if late:
        late.sort()
        half, most = late[len(late) // 2] * 1000, late[int(len(late) * 0.99)] * 1000
        rate = SECONDS * RATE / took
        print(f"event to socket at {rate:.0f} a second: p50 {half:.1f} ms, p99 {most:.1f} ms (goal: 5, 50)")


async def run() -> None:
    from playwright.async_api import async_playwright

    began = time.perf_counter()
    await up.up(name="bench", slots=1, lease=30.0, page=True)
    note = background.start()
    print(f"fleet and page up in {time.perf_counter() - began:.1f} s")
    try:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        async with async_playwright() as playwright, client.connected("admin") as bus:
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
            context = await paint(browser, note.address)
            await watchers(bus, note)
            await long_run(bus, context, note.address)
            await many_orders(bus, context, note.address)
            await browser.close()
    finally:
        await up.down()


def main() -> None:
    if shutil.which("chromium") is None:
        print("there is no chromium here")
        return
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as home:
        os.environ["TREADLE_HOME"] = home
        try:
            asyncio.run(run())
        finally:
            del os.environ["TREADLE_HOME"]
