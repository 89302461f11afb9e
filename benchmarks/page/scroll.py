"""Scrolls a table of 100,000 orders by wheel, and as fast as a hand can fling it."""

import asyncio
import os
import statistics
import time
from typing import Any

from benchmarks.page._fleet import Bench, Busy, cpu_seconds, fleet_with_page, run, size
from treadle.fleet import client
from treadle.fleet.orders import new_id
from treadle.wire.fleet.orders import Spec

ORDERS = size("ORDERS", 100_000)
SECONDS = 5
FILTERS = 11
FILTER = """async (address) => {
  const began = performance.now(), old = document.querySelector(".grid");
  const rows = new Promise((done) => {
    new MutationObserver((_, watcher) => {
      const now = document.querySelector(".grid");
      if (now === old || !now?.querySelector(".cells:not(.head) .title")?.textContent) return;
      watcher.disconnect();
      done();
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  location.hash = address;
  await rows;
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
SCROLL = """async ([step, seconds]) => {
  const port = document.querySelector(".viewport");
  const until = performance.now() + seconds * 1000;
  let frames = 0, last = performance.now(), worst = 0;
  while (last < until) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    worst = Math.max(worst, now - last);
    last = now;
    frames += 1;
    port.scrollTop += step;
  }
  return [frames, worst];
}"""


async def give(bench: Bench) -> None:
    began = time.perf_counter()
    for start in range(0, ORDERS, 500):
        await client.submit(
            bench.bus,
            [
                Spec(id=new_id(), task=f"order {number}", agent="null", project=f"p{number % 40}", labels=("nowhere",))
                for number in range(start, min(ORDERS, start + 500))
            ],
        )
    print(f"{ORDERS} orders given in {time.perf_counter() - began:.0f} s", flush=True)


async def scrolled(page: Any, busy: Busy, words: str, step: int) -> None:
    before = await busy.now()
    frames, worst = await page.evaluate(SCROLL, [step, SECONDS])
    after = await busy.now()
    spent = after["TaskDuration"] - before["TaskDuration"]
    print(
        f"{words}: {frames / SECONDS:.0f} frames a second, the longest {worst:.0f} ms, {spent / SECONDS:.0%} of the "
        f"main thread ({spent / frames * 1000:.2f} ms a frame), heap {after['JSHeapUsedSize'] / 1e6:.0f} MB "
        "(goal: 60, 10 %, 25 MB)"
    )


async def wheeled(page: Any, busy: Busy) -> None:
    """By a real wheel, which the browser scrolls by itself: only what the page does about it is its own work."""
    box = await page.locator(".viewport").bounding_box()
    gesture = {"x": int(box["x"]) + 200, "y": int(box["y"]) + 200, "yDistance": -720 * SECONDS, "speed": 720}
    session = await page.context.new_cdp_session(page)
    shares = []
    for move in (session.send("Input.synthesizeScrollGesture", {**gesture, "gestureSourceType": "mouse"}), None):
        before, began = await busy.now(), time.perf_counter()
        await (move or asyncio.sleep(SECONDS))
        after, took = await busy.now(), time.perf_counter() - began
        shares.append((after["TaskDuration"] - before["TaskDuration"]) / took)
    print(f"by a wheel (20 rows a second): {shares[0]:.1%} of the main thread, at rest {shares[1]:.1%} (goal: 10 %)")


async def scroll() -> None:
    async with fleet_with_page() as bench:
        await give(bench)
        context = await bench.signed_in()
        page = await context.new_page()
        await page.goto(f"{bench.address}/#/orders")
        await page.wait_for_function(
            "(many) => document.querySelector('.grid .small')?.textContent.replace(/\\D/g, '') === many",
            arg=str(ORDERS),
            timeout=170_000,
        )
        await asyncio.sleep(2)
        busy = await Busy.of(page)
        await wheeled(page, busy)
        await scrolled(page, busy, "by a script (20 rows a second)", 12)
        await scrolled(page, busy, "flung (670 rows a second)", 400)
        await filtered(page, busy, bench)


async def filtered(page: Any, busy: Busy, bench: Bench) -> None:
    """Other filters by the address, which is the longest way: the whole table is made anew."""
    took, page_took, server_took = [], [], []
    for number in range(1, FILTERS + 1):
        words = ("project=p{}", "project=p{}&state=queued&agent=null")[number % 2].format(number)
        before, cpu = await busy.now(), cpu_seconds(bench.note.pid)
        took.append(await page.evaluate(FILTER, f"#/orders?{words}"))
        after = await busy.now()
        page_took.append((after["TaskDuration"] - before["TaskDuration"]) * 1000)
        server_took.append((cpu_seconds(bench.note.pid) - cpu) * 1000)
        await asyncio.sleep(0.5)
    print(
        f"a filter shows its first rows after {statistics.median(took):.0f} ms, the slowest of {FILTERS} after "
        f"{max(took):.0f} (goal 100); CPU time {statistics.median(page_took):.0f} ms in the page, "
        f"{statistics.median(server_took):.0f} in the server; load {os.getloadavg()[0]:.0f}"
    )


def main() -> None:
    run(scroll)
