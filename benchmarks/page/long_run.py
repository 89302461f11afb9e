"""Opens and leaves a run of 50,000 events with 100 MB of output."""

import asyncio
import statistics
import time

import msgspec

from benchmarks.page._fleet import Busy, fleet_with_page, run, size

EVENTS = size("EVENTS", 50_000)
OUTPUT = 100_000_000 // (EVENTS // 10)
"""How many characters every tenth event holds."""


async def long_run() -> None:
    async with fleet_with_page() as bench:
        order, other = await bench.nobody_runs("a long run"), await bench.nobody_runs("a short one")
        for first in range(1, EVENTS + 1, 200):
            events = [_event(number) for number in range(first, first + 200)]
            await bench.bus.publish(f"fleet.ev.{order}.1.bench", msgspec.json.encode({"n": first, "events": events}))
        context = await bench.signed_in()
        page = await context.new_page()
        await page.goto(f"{bench.address}/#/order/{order}")
        await page.get_by_text(f"{EVENTS} events").wait_for(timeout=120_000)
        await asyncio.sleep(2)
        times = []
        for _ in range(7):
            await page.evaluate(f"location.hash = '#/order/{other}'")
            await page.get_by_role("heading", name="a short one").wait_for()
            began = time.perf_counter()
            await page.evaluate(f"location.hash = '#/order/{order}'")
            await page.wait_for_selector(".events li:nth-child(20)", timeout=60_000)
            times.append((time.perf_counter() - began) * 1000)
        heap = (await (await Busy.of(page)).now())["JSHeapUsedSize"] / 1e6
        print(
            f"a run of {EVENTS} events and 100 MB of output opens in {statistics.median(times):.0f} ms (goal 300), "
            f"heap {heap:.0f} MB (goal 60)"
        )


def _event(number: int) -> dict[str, object]:
    if number % 10:
        return {"type": "message", "text": f"line {number}", "ts": time.time()}
    return {"type": "tool_ended", "call": str(number), "name": "bash", "result": "x" * OUTPUT, "ts": time.time()}


def main() -> None:
    run(long_run)
