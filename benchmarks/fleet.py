"""Empty orders from submit to receipt, against DBOS on SQLite and Celery on Redis; latencies; memory of many runs; and
what stays constant however much is stored.

Set BENCH_PEERS to a Python that has `dbos`, `celery` and `redis` to measure them in the same run (Celery needs a
`redis-server` too); without it, only our own figures are printed. BENCH_STORED and BENCH_RUNS set other sizes than
10,000 orders and 50 runs.
"""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time

from treadle.fleet import client, up
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.streams import AttemptLog
from treadle.fleet.orders import new_id
from treadle.wire.fleet.messages import FleetStatus, RunActivity, RunBeatAnswer
from treadle.wire.fleet.orders import Spec

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


CELERY = '''
import subprocess, sys, tempfile, time, socket
place = tempfile.mkdtemp()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
aof = sys.argv[1]
keep = ["--appendonly", "no"] if aof == "none" else ["--appendonly", "yes", "--appendfsync", aof]
redis = subprocess.Popen(["redis-server", "--port", str(port), "--dir", place, "--save", "", *keep],
    stdout=subprocess.DEVNULL)
open(place + "/tasks.py", "w").write(f"""
from celery import Celery
app = Celery("tasks", broker="redis://127.0.0.1:{port}/0", backend="redis://127.0.0.1:{port}/1")
app.conf.task_acks_late = True
@app.task
def nothing(n):
    return n
""")
worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-l", "ERROR"],
    cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    sys.path.insert(0, place)
    from tasks import nothing
    nothing.delay(0).get(timeout=60)
    count = 1000
    began = time.perf_counter()
    for handle in [nothing.delay(n) for n in range(count)]:
        handle.get(timeout=120)
    print(count / (time.perf_counter() - began), flush=True)
finally:
    worker.terminate()
    worker.wait(30)
    redis.terminate()
    redis.wait(30)
'''


def main() -> None:
    peers = _peers()
    for sync in ("", "always"):
        with tempfile.TemporaryDirectory(prefix="treadle-bench-") as home:
            os.environ["TREADLE_HOME"] = home
            rate = asyncio.run(_rate(sync))
            named = "every write synced" if sync else "synced every 2 minutes (survives kill -9, not a power cut)"
            print(f"orders/s, submit to receipt, null agent, 1 node, {named}: {rate:.0f}")
            for mode, other in peers.items():
                print(f"  against {mode}: {rate / other:.1f}x ({other:.0f}/s)")


def _peers() -> dict[str, float]:
    python = os.environ.get("BENCH_PEERS")
    if not python:
        return {}
    said = subprocess.run([python, "-c", PEER], capture_output=True, text=True, timeout=300).stdout
    # SQLite as DBOS sets it up syncs with every commit.
    named = "DBOS on SQLite, {}, every commit synced"
    found = {named.format(line.split()[0]): float(line.split()[1]) for line in said.splitlines()}
    for mode, kept in (("none", "nothing persisted"), ("always", "every write synced")):
        argv = [python, "-c", CELERY, mode]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            found[f"Celery on Redis, 2 processes, acknowledged late, {kept}"] = float(done.stdout.split()[-1])
    return found


async def _rate(sync: str) -> float:
    await up.up(name="bench", slots=500, sync=sync)
    try:
        async with client.connected() as bus:
            await _give(bus, 50)
            rate = ORDERS / await _give(bus, ORDERS)
            if not sync:
                await _latencies(bus)
                await _runs(bus)
                await _growth(bus)
            return rate
    finally:
        await up.down()


async def _give(bus: Bus, count: int) -> float:
    specs = [Spec(id=new_id(), task="nothing", agent="null", created=time.time()) for _ in range(count)]
    began = time.perf_counter()
    await client.submit(bus, specs)
    while (
        sum((await bus.ask("fleet.ask.status", FleetStatus)).orders.values())
        or await bus.get(f"receipt.{specs[-1].id}") is None
    ):
        await asyncio.sleep(0.01)
    return time.perf_counter() - began


async def _latencies(bus: Bus) -> None:
    with tempfile.TemporaryDirectory() as place:
        log = AttemptLog(os.path.join(place, "events"), bus, "fleet.ev.bench.1.n")
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
    await asyncio.gather(*(bus.ask("fleet.beat.bench.none.1", RunBeatAnswer, RunActivity()) for _ in range(2000)))
    print(f"beats answered/s: {2000 / (time.perf_counter() - began):.0f}")


async def _runs(bus: Bus) -> None:
    """Runs that do nothing, all at once: what they cost is the cost of a run without its agent."""
    count = int(os.environ.get("BENCH_RUNS", "50"))
    specs = [Spec(id=new_id(), task="wait", agent="null:600:60", created=time.time()) for _ in range(count)]
    began = time.perf_counter()
    await client.submit(bus, specs)
    while (await bus.ask("fleet.ask.status", FleetStatus)).orders.get("running", 0) < count:
        await asyncio.sleep(0.1)
    started = time.perf_counter() - began
    busy = _cpu()
    await asyncio.sleep(10)
    spent = (_cpu() - busy) / 10
    runners = [note.pid for _, _, note in up.live_runners()]
    memory = [_pss(pid) for pid in runners]
    text = f"{count} runs at once: all at work after {started:.1f} s, {sum(memory) / len(memory) / 1024:.1f} MB each"
    print(f"{text} (proportional set size of the runner), {spent:.2f} cores for all of it")
    for spec in specs:
        await client.cancel(bus, spec.id)
    for spec in specs:
        await client.wait(bus, spec.id, 300)


def _pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))


def _cpu() -> float:
    """CPU seconds of all processes that use this state directory."""
    total = 0.0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"TREADLE_HOME={os.environ['TREADLE_HOME']}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


async def _growth(bus: Bus) -> None:
    for stored in (1_000, int(os.environ.get("BENCH_STORED", "10000"))):
        missing = stored - len(await bus.keys("order.*"))
        while missing > 0:
            await _give(bus, min(missing, 5000))
            missing -= 5000
        times = []
        for _ in range(20):
            began = time.perf_counter()
            await client.list_orders(bus, count=50)
            times.append(time.perf_counter() - began)
        info = await bus.api("STREAM.INFO.KV_fleet")
        each = info["state"]["bytes"] / stored
        median = statistics.median(times) * 1000
        print(f"ls of the newest 50, {stored} orders stored: {median:.1f} ms; {each:.0f} B of state an order")
        (last, _), *_ = await client.list_orders(bus, count=1)
        single: dict[str, list[float]] = {"submit": [], "logs": []}
        for _ in range(20):
            began = time.perf_counter()
            await client.submit(bus, [Spec(id=new_id(), task="nothing", agent="null", created=time.time())])
            single["submit"].append(time.perf_counter() - began)
            began = time.perf_counter()
            [seen async for seen in client.events(bus, last.id)]
            single["logs"].append(time.perf_counter() - began)
        told = ", ".join(f"{name} {statistics.median(found) * 1000:.1f} ms" for name, found in single.items())
        print(f"  one at a time: {told}")
