"""200 lost connections while a run is watched: what is lost, shown twice, or stays although it is gone.

A relay between browser and server drops connections in the middle of a message.
"""

import asyncio
import random
import time
from typing import Any

import msgspec

from benchmarks.page._fleet import Bench, fleet_with_page, run, size
from treadle.fleet import client
from treadle.fleet.orders import new_id
from treadle.serve.tokens import Tokens
from treadle.wire.fleet.orders import Spec

CUTS = size("CUTS", 200)
LINES = "[...document.querySelectorAll('.events .block.text')].map((each) => each.textContent)"
ROWS = "[...document.querySelectorAll('.part.waiting .row')].map((row) => row.dataset.id)"


class Relay:
    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition("//")[2].partition(":")
        self._target = (host, int(port))
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._open |= {writer, far_writer}
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer), return_exceptions=True)
        self._open -= {writer, far_writer}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(700):  # small pieces, so that a cut falls inside a message
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def close(self) -> None:
        self._server.close()
        self.cut()


async def cuts() -> None:
    async with fleet_with_page() as bench:
        relay = Relay(bench.address)
        address = f"http://127.0.0.1:{await relay.start()}"
        context = await bench.browser.new_context(viewport={"width": 1440, "height": 900})
        page = await context.new_page()
        order = await bench.nobody_runs("watched")
        await page.goto(f"{address}/#{Tokens().link('', 'all')}")
        await page.wait_for_selector("#pill.live", timeout=60_000)
        await page.evaluate(f"location.hash = '#/order/{order}'")
        await page.wait_for_selector(".run-bar")
        saying = asyncio.create_task(_say(bench, order))
        coming = asyncio.create_task(_come_and_go(bench))
        longest = 0.0
        for done in range(CUTS):
            await asyncio.sleep(random.uniform(0.05, 0.3))
            relay.cut()
            began = time.perf_counter()
            await page.wait_for_selector("#pill.dead", timeout=60_000)
            await page.wait_for_selector("#pill.live", timeout=60_000)
            longest = max(longest, time.perf_counter() - began)
            if done % 50 == 49:
                print(f"{done + 1} cuts", flush=True)
        saying.cancel()
        (said,) = await asyncio.gather(saying, return_exceptions=True)
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        assert isinstance(said, int), said
        lost, twice, ghosts = await _compared(bench, page, said)
        print(
            f"{CUTS} cuts, {said} events: {lost} lost, {twice} twice, {ghosts} ghosts (goal 0, 0, 0); "
            f"live again after {longest:.1f} s at most (goal 2)"
        )
        relay.close()


async def _say(bench: Bench, order: str) -> int:
    """Twenty events a second until told to stop. Returns how many there were."""
    number = 0
    try:
        while number < 2900:  # as many as the page keeps
            event = {"type": "message", "text": f"line {number + 1}."}
            await bench.bus.publish(
                f"fleet.ev.{order}.1.bench", msgspec.json.encode({"n": number + 1, "events": [event]})
            )
            number += 1
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        pass
    return number


async def _come_and_go(bench: Bench) -> None:
    """Orders are submitted and cancelled, so that rows of the board come and go while no one is connected."""
    while True:
        names = [new_id() for _ in range(3)]
        made = [Spec(id=name, task=f"short {name}", agent="null", labels=("nowhere",)) for name in names]
        await client.submit(bench.bus, made)
        await asyncio.sleep(0.4)
        for name in names:
            await client.cancel(bench.bus, name)
        await asyncio.sleep(0.4)


async def _compared(bench: Bench, page: Any, said: int) -> tuple[int, int, int]:
    """Compares what the page shows with what there was."""
    deadline = time.monotonic() + 20
    while True:
        lines = await page.evaluate(LINES)
        rows = await page.evaluate(ROWS)
        waiting = {order.id for order, _ in await client.list_orders(bench.bus, states=("queued",), count=1000)}
        wanted = [f"line {number}." for number in range(1, said + 1)]
        lost = len(set(wanted) - set(lines))
        twice = len(lines) - len(set(lines)) + sum(one != other for one, other in zip(lines, wanted, strict=False))
        ghosts = len(set(rows) - waiting)
        if not lost + twice + ghosts or time.monotonic() > deadline:
            return lost, twice, ghosts
        await asyncio.sleep(0.5)


def main() -> None:
    run(cuts)
