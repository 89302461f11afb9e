"""Faults at random while orders run, and what must hold afterwards. `make soak-fleet` runs it for long."""

import asyncio
import os
import random
import signal
import time
from typing import Any

from treadle.fleet import client, node, up
from treadle.fleet.engine import server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.io.process import table
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.states import ENDED

LEASE = 2.0


class Soak:
    """`orders` orders on `nodes` nodes, each a process, with a fault about every `pause` seconds."""

    program = up.NODE
    slots_each = 4

    def __init__(self, bus: Bus, *, orders: int, nodes: int = 2, pause: float = 1.0, seed: int = 1) -> None:
        self.bus = bus
        self.count = orders
        self.names = [f"s{number}" for number in range(nodes)]
        self.pause = pause
        self.random = random.Random(seed)
        self.faults: dict[str, int] = {}
        self.ids: list[str] = []
        self.stopped: list[tuple[int, int, float]] = []
        self.struck: dict[tuple[str, int], float] = {}
        """Order and attempt -> when its runner was killed or stopped."""
        self.takeovers: list[float] = []
        """Seconds from there to the placing of the next attempt."""

    async def run(self, seconds: float) -> dict[str, Any]:
        for name in self.names:
            self._start(name)
        began = time.monotonic()
        await self._submit()
        while await self._left() and time.monotonic() - began < seconds:
            await asyncio.sleep(self.pause * self.random.uniform(0.5, 1.5))
            self._fault()
            self._mend()
        self._wake_all()
        async with asyncio.timeout(240):
            while await self._left():
                self._mend()
                await asyncio.sleep(0.3)
        return await self._figures(time.monotonic() - began)

    async def _submit(self) -> None:
        specs = []
        for number in range(self.count):
            after = (specs[-3].id,) if number % 5 == 4 else ()
            claims = (f"part{number % 7}/**",) if number % 3 == 0 else ()
            seconds = self.random.uniform(0.1, 1.2)
            agent = f"null:{seconds:.2f}:6"
            spec = Spec(id=new_id(), task="soak", agent=agent, after=after, claims=claims, root="/r", attempts=50)
            specs.append(spec)
        self.ids = [given.id for given in await client.submit(self.bus, specs)]

    async def _left(self) -> int:
        try:
            entries = await self.bus.named([f"order.{name}" for name in self.ids])
        except Exception:
            return 1
        import msgspec

        ended = sum(msgspec.json.decode(entry.value)["state"] in ENDED for entry in entries.values())
        return self.count - ended

    # Faults...

    def _fault(self) -> None:
        kind = self.random.choice(["runner"] * 4 + ["stop"] * 2 + ["node"] * 2 + ["engine"])
        done = getattr(self, f"_kill_{kind}")()
        if done:
            self.faults[kind] = self.faults.get(kind, 0) + 1

    def _kill_runner(self) -> bool:
        return self._strike(signal.SIGKILL) != 0

    def _kill_stop(self) -> bool:
        pid = self._strike(signal.SIGSTOP)
        process = table.look(pid) if pid else None
        if process is not None:
            self.stopped.append((pid, process.start, time.monotonic() + LEASE * 1.5))
        return process is not None

    def _strike(self, number: int) -> int:
        """Send this to a runner; its number, 0 when there is none."""
        living = up.live_runners()
        if not living:
            return 0
        order, attempt, note = self.random.choice(living)
        if not _kill(note.pid, number):
            return 0
        self.struck.setdefault((order, attempt), time.time())
        return note.pid

    def _kill_node(self) -> bool:
        living = [process for _, process in up.local_nodes() if process is not None]
        return bool(living) and _kill(self.random.choice(living).pid, signal.SIGKILL)

    def _kill_engine(self) -> bool:
        found = server.running()
        return found is not None and _kill(found.pid, signal.SIGKILL)

    def _mend(self) -> None:
        """Nodes that were killed are started again, as a service manager would; who sleeps is woken after a while."""
        for name, process in up.local_nodes():
            if process is None:
                self._start(name)
        for stopped in list(self.stopped):
            if time.monotonic() > stopped[2]:
                self._wake(stopped)

    def _start(self, name: str) -> None:
        up.start_node(node.NodeSettings(name=name, slots=self.slots_each), self.program)

    def _wake(self, stopped: tuple[int, int, float]) -> None:
        self.stopped.remove(stopped)
        process = table.look(stopped[0])
        if process is not None and process.start == stopped[1]:
            table.send(process, signal.SIGCONT)

    def _wake_all(self) -> None:
        for stopped in list(self.stopped):
            self._wake(stopped)

    # What must hold...

    async def _figures(self, seconds: float) -> dict[str, Any]:
        await asyncio.sleep(LEASE * 2)  # the one who was superseded has had the time to write what it should not
        problems: list[str] = []
        lost = 0
        for name in self.ids:
            order = await client.get_order(self.bus, name)
            receipt = await client.get_receipt(self.bus, name)
            if order.state != "done":
                problems.append(f"{name} ended as {order.state}: {order.why}")
            if receipt is None or receipt.outcome != order.state or receipt.attempts != order.attempts:
                problems.append(f"{name} has no receipt that fits")
            lost += sum(attempt.outcome == "lost" for attempt in order.attempts)
            for before, after in zip(order.attempts, order.attempts[1:], strict=False):
                if (struck := self.struck.get((name, before.number))) is not None:
                    self.takeovers.append(after.placed - struck)
            problems += await self._events_of(name, order.attempt)
        orphans = [order for order, _, _ in up.live_runners()]
        problems += [f"a runner of {order} is left" for order in orphans]
        return {
            "orders": self.count,
            "seconds": round(seconds, 1),
            "faults": self.faults,
            "attempts lost": lost,
            "problems": problems,
            "lease s": LEASE,
            **quantiles(self.takeovers),
        }

    async def _events_of(self, name: str, last: int) -> list[str]:
        found: dict[int, list[int]] = {}
        ended: set[int] = set()
        problems = []
        async for seen in client.events(self.bus, name):
            if seen.attempt in ended:
                problems.append(f"{name}.{seen.attempt} wrote after its end")
            if seen.end:
                ended.add(seen.attempt)
            else:
                found.setdefault(seen.attempt, []).append(seen.n)
        for attempt, numbers in found.items():
            if numbers != list(range(1, len(numbers) + 1)):
                problems.append(f"{name}.{attempt} has events {numbers}")
        if found.get(last) != list(range(1, 7)):
            problems.append(f"{name}.{last} has not all of its events: {found.get(last)}")
        return problems


def quantiles(seconds: list[float]) -> dict[str, float | int]:
    """How long it took from the kill or stop of a runner until its order was placed again."""
    if not seconds:
        return {"take-overs": 0}
    found = sorted(seconds)
    last = len(found) - 1
    return {
        "take-overs": len(found),
        "take-over median s": round(found[last // 2], 3),
        "take-over p99 s": round(found[int(last * 0.99)], 3),
        "take-over max s": round(found[last], 3),
    }


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
