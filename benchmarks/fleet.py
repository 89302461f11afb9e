"""Empty orders from submit to receipt, against DBOS on SQLite; latencies; and what does not grow with what is stored.

Set BENCH_PEERS to a Python that has `dbos` to measure it in the same run; without it, only our own figures are printed.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time

from treadle.fleet import client, up
from treadle.fleet.bus import Bus
from treadle.fleet.events import EventLog
from treadle.fleet.orders import Spec, new_id

ORDERS = 1000
PEER = """
import sys, time, tempfile, os
from dbos import DBOS
place = tempfile.mkdtemp()
DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{place}/s.sqlite", "log_level": "ERROR"})
@DBOS.workflow()
def nothing(n):
    return n
DBOS.launch()
queue = DBOS.register_queue("q")
for mode, count in (("queue", 200), ("direct", 400)):
    began = time.perf_counter()
    if mode == "queue":
        [h.get_result() for h in [queue.enqueue(nothing, n) for n in range(count)]]
    else:
        [nothing(n) for n in range(count)]
    print(mode, count / (time.perf_counter() - began), flush=True)
os._exit(0)
"""


def main() -> None:
    peers = _peers()
    for sync in ("", "always"):
        with tempfile.TemporaryDirectory(prefix="treadle-bench-") as home:
            os.environ["TREADLE_HOME"] = home
            rate = asyncio.run(_rate(sync))
            named = "every write synced" if sync else "synced every 2 minutes (survives kill -9, not a power cut)"
            print(f"orders/s, submit to receipt, null agent, 1 node, {named}: {rate:.0f}")
            for mode, other in peers.items():
                print(f"  against DBOS on SQLite, {mode}: {rate / other:.1f}x ({other:.0f}/s)")


def _peers() -> dict[str, float]:
    python = os.environ.get("BENCH_PEERS")
    if not python:
        return {}
    said = subprocess.run([python, "-c", PEER], capture_output=True, text=True, timeout=300).stdout
    return {line.split()[0]: float(line.split()[1]) for line in said.splitlines()}


async def _rate(sync: str) -> float:
    await up.up(name="bench", slots=500, sync=sync)
    try:
        async with client.connected() as bus:
            await _give(bus, 50)
            rate = ORDERS / await _give(bus, ORDERS)
            if not sync:
                await _latencies(bus)
                await _growth(bus)
            return rate
    finally:
        await up.down()


async def _give(bus: Bus, count: int) -> float:
    specs = [Spec(id=new_id(), task="nothing", agent="null", created=time.time()) for _ in range(count)]
    began = time.perf_counter()
    await client.submit(bus, specs)
    while (
        sum((await bus.ask("fleet.ask.status"))["orders"].values()) or await bus.get(f"receipt.{specs[-1].id}") is None
    ):
        await asyncio.sleep(0.01)
    return time.perf_counter() - began


async def _latencies(bus: Bus) -> None:
    with tempfile.TemporaryDirectory() as place:
        log = EventLog(os.path.join(place, "events"), bus, "fleet.ev.bench.1.n")
        reader = client.events(bus, "bench", follow=True).__aiter__()
        times = []
        for number in range(300):
            began = time.perf_counter()
            log.append(b'{"type":"text_delta","text":"%d"}' % number)
            await anext(reader)
            times.append(time.perf_counter() - began)
        times.sort()
        print(f"event to watcher: p50 {times[150] * 1000:.2f} ms, p99 {times[296] * 1000:.2f} ms")
        began = time.perf_counter()
        for number in range(20_000):
            log.append(b'{"type":"text_delta","text":"%d"}' % number)
        await log.finish(60)
        print(f"events/s, kept on disk and stored in the engine: {20_000 / (time.perf_counter() - began):.0f}")
    began = time.perf_counter()
    await asyncio.gather(*(bus.ask("fleet.beat.bench.none.1", {}) for _ in range(2000)))
    print(f"beats answered/s: {2000 / (time.perf_counter() - began):.0f}")


async def _growth(bus: Bus) -> None:
    for stored in (1_000, 10_000):
        missing = stored - len(await bus.keys("order.*"))
        if missing > 0:
            await _give(bus, missing)
        times = []
        for _ in range(20):
            began = time.perf_counter()
            await client.list_orders(bus, count=50)
            times.append(time.perf_counter() - began)
        info = await bus.api("STREAM.INFO.KV_fleet")
        each = info["state"]["bytes"] / stored
        median = statistics.median(times) * 1000
        print(f"ls of the newest 50, {stored} orders stored: {median:.1f} ms; {each:.0f} B of state an order")
