"""A review is a decision: send back, merge, throw away."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.repositories import edits, work
from tests.serve.conftest import Web, until_listed
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve.api import reviews


@pytest.mark.slow
async def test_work_is_sent_back_with_comments_merged_with_verify_and_thrown_away(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"))
    other = work(repository, edits(tmp_path, "y", "b.txt", "two"), verify="false")
    await give(bus, order, other)
    await client.wait(bus, order.id, 90)
    needs = await until_listed(web, "needs=review", 1)
    assert needs["orders"][0]["id"] == order.id and needs["orders"][0]["files"] == 1
    diff = await web.http.get(f"/api/v1/orders/{order.id}/diff")
    assert diff.headers["content-type"] == "text/plain; charset=utf-8" and "+two" in diff.text
    shown = await web.get(f"/orders/{order.id}/changes")
    assert [file["path"] for file in shown["files"]] == ["a.txt"]
    empty = await web.http.post(f"/api/v1/orders/{order.id}/send-back", json={})
    assert empty.status_code == 422
    edits(tmp_path, "x", "a.txt", "three")  # what the model does the second time
    comments = [{"path": "a.txt", "line": 1, "text": "write three"}, {"text": "and be quick"}]
    again = await web.post(f"/orders/{order.id}/send-back", {"comments": comments}, status=201)
    task = (await client.get_spec(bus, again["id"])).comments
    assert "a.txt:1\n> two\nwrite three" in task and "and be quick" in task
    await client.wait(bus, again["id"], 90)
    made = await web.post("/merges", {"orders": [again["id"]], "verify": "test -e a.txt"}, status=202)
    async with asyncio.timeout(90):
        while (merge := await web.get(f"/merges/{made['id']}"))["state"] == "running":
            await asyncio.sleep(0.02)
    assert merge["state"] == "merged" and merge["steps"][0]["merged"], merge
    assert (merge["into"], merge["verify"], merge["at"]) == (str(repository), "test -e a.txt", "")
    assert merge["ended"] >= merge["started"] and "(test)" in merge["by"]
    refused = await web.post("/merges", {"orders": [again["id"]], "verify": "false"}, status=202)
    async with asyncio.timeout(90):
        while (stopped := await web.get(f"/merges/{refused['id']}"))["state"] == "running":
            await asyncio.sleep(0.02)
    assert [each["id"] for each in await web.get("/merges")] == [refused["id"], made["id"]]
    assert stopped["ended"] and stopped["state"] in ("stopped", "merged")
    assert (await web.http.get("/api/v1/merges/none")).status_code == 404
    assert (repository / "a.txt").read_text() == "three"
    assert (await client.wait(bus, other.id, 90)).state == "failed"
    await until_listed(web, "needs=failed", 1)
    await web.post(f"/orders/{other.id}/reviewed")
    await until_listed(web, "needs=failed", 0)
    result = (await client.get_order(bus, other.id)).result
    assert "(test)" in result["reviewed"]
    await web.post(f"/orders/{order.id}/discard")
    async with asyncio.timeout(90):
        while not (await client.get_order(bus, order.id)).result.get("discarded"):
            await asyncio.sleep(0.02)


async def test_a_merge_goes_to_where_the_first_order_is_from_and_only_the_last_ones_are_known(
    web: Web, bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "MERGES_MAX", 1)
    nowhere, somewhere = await give(bus, spec(), spec(root=str(tmp_path), verify="make test"))
    refused = await web.http.post("/api/v1/merges", json={"orders": [nowhere, somewhere]})
    assert refused.status_code == 422 and "where to merge to" in refused.text and await web.get("/merges") == []
    first = await web.post("/merges", {"orders": [somewhere[:8], nowhere]}, status=202)
    assert (first["into"], first["verify"], first["anyway"]) == (str(tmp_path), "make test", False)
    assert first["orders"] == [somewhere, nowhere]
    made = await web.post("/merges", {"orders": [nowhere], "into": "/x", "verify": "", "anyway": True}, status=202)
    assert (made["into"], made["verify"], made["anyway"]) == ("/x", "", True)
    async with asyncio.timeout(90):
        while (merge := await web.get(f"/merges/{made['id']}"))["state"] == "running":
            await asyncio.sleep(0.02)
    assert merge["state"] == "stopped" and (merge["problem"] or not merge["steps"][0]["merged"])
    assert [each["id"] for each in await web.get("/merges")] == [made["id"]]
