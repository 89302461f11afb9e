"""The trains over HTTP: a finished order lands by a button, what landed is shown, a train that stopped is told."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fleet.repositories import git
from tests.landing.finished import Finished
from tests.landing.finished import finished as finished
from tests.landing.test_conductor import driving
from tests.serve.conftest import WAIT, StartWeb, Web
from tests.serve.receiver import receiving
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import train
from treadle.wire.fleet.records import Note, Used


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "IDLE_SECONDS", 0.05)


async def until(web: Web, what: Any) -> dict[str, Any]:
    """The only train, as soon as this is true of it."""
    async with asyncio.timeout(WAIT):
        while not ((found := await web.get("/trains")) and what(found[0])):
            await asyncio.sleep(0.05)
    return dict(found[0])


async def test_a_finished_order_lands_by_one_call_and_the_history_says_for_how_much(
    web: Web, bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"}, verify="test -e a.txt")
    bad = await finished.order("bad", {"b.txt": "x\n"})
    order = await client.get_order(bus, one)
    used = Used(input_tokens=1200, usd=0.25)
    await bus.put(f"order.{one}", encode(msgspec.structs.replace(order, used=used, agent="codex", project="shop")))
    async with driving(bus):
        await web.post(f"/orders/{one}/land", {}, status=202)
        found = await until(web, lambda each: each["landed"] == 1)
        await train.ensure(bus, str(repository), "main", verify="false")
        await web.post(f"/orders/{bad}/land", {"branch": "main"}, status=202)
        found = await until(web, lambda each: any("kind" in change for change in each.get("changes", ())))
    (landed,) = found["history"]
    assert (landed["order"], landed["agent"], landed["goal"]) == (one, "codex", "shop")
    assert landed["used"]["usd"] == 0.25 and landed["verify"] == "test -e a.txt"
    assert git(repository, "rev-parse", "main") == landed["commit"]
    assert [(each["order"], each["kind"]) for each in found["changes"]] == [(bad, "red")]
    metrics = (await web.http.get("/metrics")).text
    name = found["name"]
    assert f'treadle_train_landed_total{{train="{name}",branch="main"}} 1' in metrics
    assert f'treadle_train_waiting{{train="{name}",branch="main"}} 0' in metrics


async def test_what_cannot_land_is_refused_and_a_train_is_paused_and_resumed(
    web: Web, bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    entry = await client.get_order(bus, one)
    await bus.put(f"order.{one}", encode(msgspec.structs.replace(entry, state="failed")))
    refused = await web.http.post(f"/api/v1/orders/{one}/land", json={})
    assert refused.status_code == 409 and "is failed, so it has nothing to land" in refused.text
    name = await train.ensure(bus, str(repository), "main", verify="true")
    async with driving(bus):
        await web.post(f"/trains/{name}/pause", {"why": "a release"})
        paused = (await until(web, lambda each: "paused" in each))["paused"]
        assert paused["what"] == "a release" and "(test)" in paused["by"]
        await web.post(f"/trains/{name}/resume")
        await until(web, lambda each: "paused" not in each)
        await web.post(f"/trains/{name}/pause")
        assert (await until(web, lambda each: "paused" in each))["paused"]["what"] == "paused"
    assert (await web.http.post("/api/v1/trains/nothing/resume")).status_code == 404


async def test_a_train_that_stops_by_itself_is_told_once_and_one_that_a_person_paused_is_not(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, repository: Path, tmp_path: Path
) -> None:
    async with receiving() as hook:
        web = await serving(terminals=str(tmp_path), notify=(f"{hook.url}/hook",))
        await web.until_up()
        name = await train.ensure(bus, str(repository), "main", verify="true")

        async def paused(by: str, what: str) -> None:
            note = Note(at=time.time(), by=by, what=what)
            await train.change(bus, name, lambda found: msgspec.structs.replace(found, paused=note))

        await paused("ann", "a release")
        await paused("train", "someone forced it back")
        heard = await hook.until(lambda each: b'"stopped"' in each.body)
        told = msgspec.json.decode(heard.body)
        assert "the train of main is stopped" in told["title"] and "someone forced it back" in told["words"]
        await paused("train", "still so")
        await train.change(bus, name, lambda found: msgspec.structs.replace(found, paused=None))
        await paused("train", "again")
        await hook.until(lambda each: b"again" in each.body)
        assert [b"a release" in each.body or b"still so" in each.body for each in hook.heard] == [False, False]
