"""What 200 watchers cost: memory of the server, time of the runs that they watch, and the delay of events."""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from websockets.asyncio.client import connect

from benchmarks.page._fleet import Bench, cpu_seconds, fleet_with_page, rss, run, size
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.serve.tokens import Tokens
from treadle.wire.fleet.orders import Spec

WATCHERS = size("WATCHERS", 200)
RATE, SECONDS = 20_000, 5
PAIRS, RUN = 5, "null:4:400"


async def watched_run(bus: Bus, watching: bool) -> float:
    """Seconds from the first to the last event of a run that would take four."""
    name = new_id()
    await client.submit(bus, [Spec(id=name, task="watched" if watching else "alone", agent=RUN)])
    order = await client.wait(bus, name, 120)
    assert order.state == "done", order.why
    attempt = order.attempts[-1]
    return attempt.ended - attempt.placed


async def watchers() -> None:
    async with fleet_with_page(browser=False) as bench:
        headers = {"authorization": f"Bearer {Tokens().make('bench', 'all')[1]}"}
        url = bench.address.replace("http", "ws") + "/socket"
        idle = rss(bench.note.pid)

        async def follow(
            topics: tuple[str, ...], late: list[float] | None = None, there: asyncio.Event | None = None
        ) -> None:
            async with connect(url, additional_headers=headers, proxy=None, max_size=None, open_timeout=60) as socket:
                for topic in topics:
                    await socket.send(subscribe(topic))
                async for text in socket:
                    if late is None or there is None:
                        continue
                    message = msgspec.json.decode(text)
                    late.extend(time.time() - at for at in times_in(message))
                    if "error" in message:  # the server is there before its fleet is
                        await asyncio.sleep(0.2)
                        await socket.send(subscribe(message["t"]))
                    elif message["t"].startswith("run:"):
                        there.set()

        alone, together = [], []
        await watched_run(bench.bus, False)
        for _ in range(PAIRS):
            alone.append(await watched_run(bench.bus, False))
            tasks = [asyncio.create_task(follow(("board",))) for _ in range(WATCHERS)]
            await asyncio.sleep(2)
            together.append(await watched_run(bench.bus, True))
            most = rss(bench.note.pid)
            await ended(tasks)
        slower = statistics.median(together) / statistics.median(alone) - 1
        print(f"{WATCHERS} watchers: server {idle:.0f} MB alone, {most:.0f} MB with them (goal 90)")
        print(f"runs take {slower:+.1%} with them (goal +1 %)", flush=True)
        await delay(bench, follow)


async def delay(bench: Bench, follow: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """The events of one run at a high rate, with one tab on that run."""
    order, late, there = await bench.nobody_runs("watched"), list[float](), asyncio.Event()
    task = asyncio.create_task(follow(("board", f"run:{order}"), late, there))
    await asyncio.wait_for(there.wait(), 60)
    number, began, each, cpu = 1, time.perf_counter(), RATE // 50, cpu_seconds(bench.note.pid)
    for step in range(SECONDS * 50):
        events = [{"type": "message", "text": "x", "ts": time.time()} for _ in range(each)]
        await bench.bus.publish(f"fleet.ev.{order}.1.bench", msgspec.json.encode({"n": number, "events": events}))
        number += each
        await asyncio.sleep(max(0.0, began + (step + 1) / 50 - time.perf_counter()))
    took = time.perf_counter() - began
    await asyncio.sleep(1)
    await ended([task])
    late.sort()
    if not late:
        print("no event reached the socket")
        return
    half, most = late[len(late) // 2] * 1000, late[int(len(late) * 0.99)] * 1000
    print(
        f"event to socket at {SECONDS * RATE / took:.0f} a second: p50 {half:.1f} ms (goal 5), p99 {most:.1f} ms "
        f"(goal 50), {len(late)} of {SECONDS * RATE} sent one by one, the rest as a newest page; the server took "
        f"{(cpu_seconds(bench.note.pid) - cpu) / took:.0%} of a processor; load {os.getloadavg()[0]:.0f}"
    )


def subscribe(topic: str) -> str:
    return msgspec.json.encode({"do": "sub", "topic": topic, "params": {}}).decode()


def times_in(message: dict[str, Any]) -> list[float]:
    """When those events of a run were made that arrived one by one."""
    if not str(message.get("t", "")).startswith("run:") or message.get("reset") or "error" in message:
        return []
    return [each["event"]["ts"] for each in message["events"] if "ts" in each["event"]]


async def ended(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    run(watchers)
