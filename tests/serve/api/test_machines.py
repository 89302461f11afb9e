"""What holds for the whole fleet: pauses, budgets, claims, search, and figures for Prometheus."""

import asyncio
import time

import msgspec

from tests.fleet.conftest import Start, give, spec, until_state
from tests.serve.conftest import WAIT, Web
from tests.serve.test_order_index import event, order
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.serve.api import machines
from treadle.serve.fleet_link import FleetLink
from treadle.serve.order_index import OrderIndex
from treadle.wire.fleet.records import Attempt, Note, Used
from treadle.wire.fleet.train import QueuedChange, TrainRecord

SLOW = "null:600:600"


async def test_the_fleet_is_paused_limited_and_budgeted(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node()
    await web.post("/pause", {"scope": "agent:null", "why": "release"})
    await web.http.put("/api/v1/budgets", json={"scope": "project:p", "tokens": 1000})
    await web.http.put("/api/v1/limits", json={"scope": "agent:null", "most": 2})
    await web.post("/nodes/n1/drain", {"why": "reboot"})
    async with asyncio.timeout(WAIT):
        while len(found := await web.get("/control")) < 4 or "n1" not in found.get("drained", {}):
            await asyncio.sleep(0.02)
        paused = found["pauses"]["agent:null"]
        assert "release" in str(paused) and "(test)" in str(paused)
        assert found["budgets"]["project:p"]["tokens"] == 1000 and found["budgets"]["project:p"].get("usd") is None
        assert found["limits"] == {"agent:null": 2} and "reboot" in str(found["drained"]["n1"])
        await web.post("/resume", {"scope": "agent:null"})
        await web.post("/nodes/n1/undrain")
        await web.http.put("/api/v1/limits", json={"scope": "agent:null"})
        while (found := await web.get("/control")).get("pauses") or found.get("drained") or found.get("limits"):
            await asyncio.sleep(0.02)
        await web.post("/pause", {"now": True})
        while "fleet" not in (await web.get("/control")).get("pauses", {}):
            await asyncio.sleep(0.02)
        await web.post("/resume")
    assert (await web.get("/nodes"))[0]["name"] == "n1"
    invited = await web.post("/invitations", {"name": "n2"}, status=201)
    assert invited["command"].startswith("treadle fleet join ") and invited["url"].startswith("nats://127.0.0.1:")
    assert "treadle_up 1" in (await web.http.get("/metrics")).text


async def test_claims_tell_who_holds_and_who_waits(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node()
    (first,) = await give(bus, spec(SLOW, root="/r", claims=("src/**",)))
    await until_state(bus, first, "running")
    (second,) = await give(bus, spec(root="/r", claims=("src/a.py",)))
    async with asyncio.timeout(WAIT):
        while len(found := [each for each in await web.get("/claims") if each["waits_for"]]) < 1:
            await asyncio.sleep(0.02)
    assert found[0]["order"] == second and found[0]["waits_for"] == first and "src/a.py" in found[0]["text"]


async def test_without_a_fleet_it_says_that_it_is_down_and_who_watches() -> None:
    lines = (await machines.text(FleetLink(), 3)).splitlines()
    assert "treadle_up 0" in lines and "treadle_watchers 3" in lines
    assert not [line for line in lines if line.startswith("treadle_orders")]


async def test_every_figure_of_a_fleet_has_its_name_its_kind_and_its_value(bus: Bus) -> None:
    link = FleetLink()
    link.bus = bus
    before = await machines.text(link, 0)
    assert "treadle_up 1" in before and "treadle_orders" not in before, "its index is not filled yet"
    attempts = (
        Attempt(number=1, node="n1", placed=110.0, ended=130.0, outcome="lost"),
        Attempt(number=2, node="n1", placed=140.0, ended=145.0, outcome="done"),
    )
    link.index = OrderIndex(":memory:", "f")
    used = Used(input_tokens=7, usd=0.5)
    done = order("a", 1, state="done", created=100.0, attempt=2, attempts=attempts, used=used)
    link.index.take_state([done, order("b", 2, state="queued")])
    link.index.take_events([event("a", 1, {"type": "message", "text": "x"})])
    for number in range(5):
        await bus.put(f"order.o{number}", done.value)
    await bus.publish("fleet.ev.a.1.n1", msgspec.json.encode({"n": 1, "events": []}))
    queue = (QueuedChange(order="q", commit="c", base="b", at=time.time() - 1000),)
    train = TrainRecord(repository="r", branch='ma"in', tip="t", landed=3, checks=5, flaky=1, queue=queue)
    await bus.put("train.t1", encode(train))
    still = msgspec.structs.replace(train, branch="b", queue=(), paused=Note(at=1.0, by="ana", what="a release"))
    await bus.put("train.t2", encode(still))
    text = await machines.text(link, 1)
    lines = text.splitlines()
    for line in (
        'treadle_orders{state="done"} 1',
        'treadle_orders{state="queued"} 1',
        'treadle_orders{state="running"} 0',
        "treadle_tokens_total 7",
        "treadle_cost_usd_total 0.5",
        "treadle_retries_total 1",
        "treadle_takeovers_total 1",
        "treadle_wait_seconds_sum 10",
        "treadle_wait_seconds_count 1",
        "treadle_run_seconds_sum 25",
        "treadle_run_seconds_count 2",
        "treadle_nodes 0",
        "# TYPE treadle_tokens_total counter",
        "# HELP treadle_tokens_total Tokens that orders used.",
        'treadle_train_waiting{train="t1",branch="ma\\"in"} 1',
        'treadle_train_waiting{train="t2",branch="b"} 0',
        'treadle_train_oldest_seconds{train="t2",branch="b"} 0',
        'treadle_train_stopped{train="t1",branch="ma\\"in"} 0',
        'treadle_train_stopped{train="t2",branch="b"} 1',
        'treadle_train_landed_total{train="t1",branch="ma\\"in"} 3',
        'treadle_train_checks_total{train="t1",branch="ma\\"in"} 5',
        'treadle_train_flaky_total{train="t1",branch="ma\\"in"} 1',
        "# TYPE treadle_train_landed_total counter",
        "# TYPE treadle_train_waiting gauge",
    ):
        assert line in lines, text
    last = (await bus.api("STREAM.INFO.KV_fleet"))["state"]["last_seq"]
    lags = {line.partition(" ")[2] for line in lines if line.startswith("treadle_lag_messages")}
    assert lags == {str(last - 2), "0"}, "what the index has not taken in: of the states, and of the events"
    assert text.endswith("\n") and lines[-1].startswith("treadle_scraped_seconds ")
