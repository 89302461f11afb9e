"""1,000 questions, answered over HTTP, while page, node and engine are killed in turn and started again."""

import asyncio
import itertools
import os
import signal
import tempfile
import time
from pathlib import Path

import httpx2

from benchmarks.page._asking import asking, make_repository
from benchmarks.page._fleet import Bench, fleet_with_page, run, size
from treadle.errors import TreadleError
from treadle.fleet import client, up
from treadle.fleet.engine import places, server
from treadle.serve import background
from treadle.serve.tokens import Tokens

ASKS = size("ASKS", 1000)
ORDERS = 10
PAUSE = 5.0
SECONDS = 900.0


async def asks() -> None:
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as directory:
        repository = make_repository(Path(directory, "repo"))
        async with fleet_with_page(browser=False, slots=ORDERS, lease=5.0) as bench:
            began = time.perf_counter()
            specs = [asking(repository, ASKS // ORDERS) for _ in range(ORDERS)]
            names = [given.id for given in await client.submit(bench.bus, specs)]
            told: dict[str, int] = {"answers": 0, "refused": 0, "kills": 0}
            working = [asyncio.create_task(_answer(told)), asyncio.create_task(_kill(told))]
            try:
                async with asyncio.timeout(SECONDS):
                    ended = [await _until_ended(bench, name) for name in names]
            finally:
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)
            await _judge(bench, names, ended, told, time.perf_counter() - began)


async def _judge(bench: Bench, names: list[str], ended: list[str], told: dict[str, int], took: float) -> None:
    allowed = 0
    for name in names:
        receipt = await client.get_receipt(bench.bus, name)
        given = receipt.approvals if receipt is not None else []
        allowed += len({one["command"] for one in given if one["decision"] == "allow"})
        if ended[names.index(name)] != "done":
            order = await client.get_order(bench.bus, name)
            print(f"order {name} is {order.state}: {order.why}; {[attempt.outcome for attempt in order.attempts]}")
    stuck = sum(state != "done" for state in ended)
    print(
        f"{allowed} of {ASKS} questions answered, {ASKS - allowed} lost, {stuck} orders stuck (goal 0, 0), with "
        f"{told['kills']} kills of page, node and engine, in {took:.0f} s"
    )


async def _until_ended(bench: Bench, name: str) -> str:
    while True:
        try:
            order = await client.get_order(bench.bus, name)
            if order.ended:
                return order.state
        except TreadleError:
            pass  # the engine is away
        await asyncio.sleep(0.5)


async def _answer(told: dict[str, int]) -> None:
    """Acts like someone on the page who allows what is asked, wherever the page is now."""
    headers = {"authorization": f"Bearer {Tokens().make('bench', 'answer')[1]}"}
    async with httpx2.AsyncClient(headers=headers, timeout=5.0, trust_env=False) as http:
        while True:
            try:
                note = await asyncio.to_thread(background.start)
                base = f"{note.address}/api/v1"
                response = await http.get(f"{base}/approvals")
                for ask in response.json() if response.status_code == 200 else []:
                    body = {"decision": "allow", "number": ask["number"]}
                    done = await http.post(f"{base}/orders/{ask['order']}/answer", json=body)
                    told["answers" if done.status_code == 200 else "refused"] += 1
            except (httpx2.HTTPError, OSError, TreadleError, ValueError):
                pass  # it is away, and is asked again
            await asyncio.sleep(0.05)


async def _kill(told: dict[str, int]) -> None:
    for victim in itertools.cycle(("page", "node", "engine")):
        await asyncio.sleep(PAUSE)
        if victim == "page":
            note = background.find()
            pid = note.pid if note is not None else 0
        elif victim == "node":
            pid = next((process.pid for _, process in up.local_nodes() if process is not None), 0)
        else:
            found = server.running()
            pid = found.pid if found is not None else 0
        if not pid:
            continue
        os.kill(pid, signal.SIGKILL)
        told["kills"] += 1
        await asyncio.sleep(1.0)
        if victim == "engine":
            await asyncio.to_thread(server.start, places.load())
        elif victim == "node":
            await up.up(name="bench", slots=ORDERS)


def main() -> None:
    run(asks)
