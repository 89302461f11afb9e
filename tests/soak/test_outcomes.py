"""`make soak-outcomes`: what people see at the end, judged under load while runners, nodes and the engine are killed.

Our own agent works in a repository whose files are full of keys, and says them aloud. Every order whose agent finished
must be done, every failure must have its reason on the board, and no key may be in anything that is kept.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.conftest import bus, fleet, nothing_left, repository  # noqa: F401
from tests.fleet.repositories import bash, git, model, read, says, work, write
from tests.fleet.run.test_attempt import CANARIES, VALUES, canaries_in, everything_stored, files_kept
from tests.fleet.soak import LEASE, Soak
from tests.serve.conftest import Web, serving, web  # noqa: F401
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import Order

ORDERS = int(os.environ.get("SOAK_ORDERS", "200"))
LOAD = int(os.environ.get("SOAK_LOAD", "50"))
SECONDS = 3600.0
ALOUD = "\n".join(CANARIES.values())
KINDS = ("good", "good", "good", "unverified", "turns", "no model")
"""What orders are given, one after the other; the last three must fail, each with its reason."""


class Outcomes(Soak):
    """Orders of our own agent. Each is tried again as often as it was struck, and no more for its own failures."""

    def __init__(self, bus: Bus, repository: Path, scripts: Path, web: Web, **options: Any) -> None:  # noqa: F811
        super().__init__(bus, **options)
        self.repository, self.scripts, self.web = repository, scripts, web
        self.kinds: dict[str, str] = {}

    async def _submit(self) -> None:
        kinds = [KINDS[number % len(KINDS)] for number in range(self.count)]
        specs = [self._spec(kind, number) for number, kind in enumerate(kinds)]
        self.kinds = {spec.id: kind for spec, kind in zip(specs, kinds, strict=True)}
        self.ids = [each.id for each in await client.submit(self.bus, specs)]

    def _spec(self, kind: str, number: int) -> Spec:
        replies = [
            says(f"I look.\n{ALOUD}", read("keys.txt"), bash("cat keys.txt; tail -n 3 keys.txt >&2")),
            says("I write.", write(f"made{number}.txt", "made")),
            says(f"Done. {ALOUD}", times="always"),
        ]
        script = model(self.scripts, *replies, name=f"m{number}") if kind != "no model" else "scripted:/nowhere.toml"
        verify = {"good": f"test -e made{number}.txt", "unverified": "cat keys.txt; false"}.get(kind, "")
        more: dict[str, object] = {"limits": OrderLimits(turns=1)} if kind == "turns" else {}
        return work(self.repository, script, mode="yolo", verify=verify, attempts=50, title=f"{kind} {number}", **more)

    async def _figures(self, seconds: float) -> dict[str, Any]:
        orders = {name: await client.get_order(self.bus, name) for name in self.ids}
        problems = [problem for name in self.ids for problem in await self._judged(orders[name])]
        rows = await self._board()
        failed = [name for name, order in orders.items() if order.state == "failed"]
        problems += [
            f"the board gives no reason for {name}"
            for name in failed
            if not (rows.get(name, {}).get("why") and rows[name].get("reason"))
        ]
        leaks = await self._leaks(orders)
        problems += [f"{name} holds {sorted(found)}" for name, found in leaks.items()]
        return {
            "orders": {kind: sum(each == kind for each in self.kinds.values()) for kind in sorted(set(KINDS))},
            "done": sum(order.state == "done" for order in orders.values()),
            "failed": len(failed),
            "attempts": sum(order.attempt for order in orders.values()),
            "seconds": round(seconds, 1),
            "load": os.getloadavg()[0],
            "faults": self.faults,
            "lease s": LEASE,
            "problems": problems,
        }

    async def _judged(self, order: Order) -> list[str]:
        kind = self.kinds[order.id]
        ends = [
            seen.event["outcome"]
            async for seen in client.events(self.bus, order.id)
            if seen.attempt == order.attempt and seen.event and seen.event["type"] == "turn_ended"
        ]
        finished = bool(ends) and ends[-1] == "completed"
        if (finished and kind != "unverified") != (order.state == "done"):
            return [f"{order.id} ({kind}): its agent ended as {ends}, the order as {order.state}: {order.why}"]
        if (kind == "good") != (order.state == "done"):
            return [f"{order.id} ({kind}) ended as {order.state}: {order.why}"]
        return []

    async def _board(self) -> dict[str, Any]:
        answer = await self.web.http.get(f"/api/v1/orders?count={min(self.count, 500)}")
        return {row["id"]: row for row in answer.json()["orders"]}

    async def _leaks(self, orders: dict[str, Order]) -> dict[str, set[str]]:
        # Not looked at: agents' own histories on their own machine, and the work itself.
        runs = [f"fleet/runs/{name}.{number}" for name, order in orders.items() for number in range(order.attempt + 1)]
        kept = files_kept(("sessions/", *(f"{run}/{part}/" for run in runs for part in ("work", "store"))))
        held = {**await everything_stored(self.bus), **kept}
        return {name: found for name, data in held.items() if (found := canaries_in(data))}


@pytest.fixture
def load() -> Iterator[None]:
    """Programs that take all the time they get."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    yield
    for each in busy:
        each.kill()
        each.wait()


@pytest.mark.timeout(0)
async def test_finished_is_done_failed_says_why_and_no_key_is_kept(
    fleet: places.Fleet,  # noqa: F811
    bus: Bus,  # noqa: F811
    web: Web,  # noqa: F811
    repository: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: None,
) -> None:
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)
    (repository / "keys.txt").write_text(ALOUD + "\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "keys")
    soak = Outcomes(bus, repository, tmp_path, web, orders=ORDERS, nodes=2, pause=1.5)
    found = await soak.run(SECONDS)
    print(json.dumps(found), flush=True)
    assert found["problems"] == []
