"""A review is a decision: send back, or throw away."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, work
from tests.serve.conftest import Web, until_listed
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus


@pytest.mark.slow
async def test_work_is_sent_back_with_comments_and_thrown_away(
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
