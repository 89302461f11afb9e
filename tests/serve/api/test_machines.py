"""What holds for the whole fleet: pauses, budgets, claims, search."""

import asyncio
from pathlib import Path

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import edits, work
from tests.serve.conftest import WAIT, Web, calls_of
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve.api import machines

SLOW = "null:600:600"


async def test_the_fleet_is_paused_limited_and_budgeted(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node()
    await web.post("/pause", {"scope": "agent:null", "why": "release"})
    await web.http.put("/api/v1/budgets", json={"scope": "project:p", "tokens": 1000})
    await web.http.put("/api/v1/weights", json={"project": "p", "weight": 3})
    await web.http.put("/api/v1/limits", json={"scope": "agent:null", "most": 2})
    await web.post("/nodes/n1/drain", {"why": "reboot"})
    async with asyncio.timeout(WAIT):
        while len(found := await web.get("/control")) < 5 or "n1" not in found.get("drained", {}):
            await asyncio.sleep(0.02)
        paused = found["pauses"]["agent:null"]
        assert "release" in str(paused) and "(test)" in str(paused) and found["weights"] == {"p": 3.0}
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


async def test_runs_are_searched_by_what_was_said_done_and_touched(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"))
    await give(bus, order)
    await client.wait(bus, order.id, 90)
    async with asyncio.timeout(WAIT):
        while not (found := await web.get("/search?q=I writ"))["hits"]:
            await asyncio.sleep(0.02)
    assert found["hits"][0]["order"] == order.id and "\x01write\x02" in found["hits"][0]["text"]
    (spent,) = await web.get("/money")
    assert spent["orders"] == 1 and spent["tokens"] > 0 and spent["hour"] % 3600 == 0
    files = await web.get("/search?q=a.txt&kind=file")
    assert files["hits"] and files["hits"][0]["kind"] == "file"
    assert (await web.get('/search?q="AND (xyzzy*'))["total"] == 0 and (await web.get("/search"))["hits"] == []


def test_who_may_do_what() -> None:
    assert calls_of(machines) == [
        "GET /nodes watch",
        "POST /nodes/{id}/drain all optional",
        "POST /nodes/{id}/undrain all",
        "POST /invitations all",
        "GET /control watch",
        "POST /pause all optional",
        "POST /resume all optional",
        "PUT /budgets all",
        "PUT /weights all",
        "PUT /limits all",
        "GET /claims watch",
        "GET /money watch",
        "GET /search watch",
    ]
