"""Orders over HTTP: what the command line can do with them, with proper answers for what goes wrong."""

import asyncio
from pathlib import Path
from typing import Any

from tests.fleet.api.conftest import WAIT, Web
from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import edits, work
from treadle.fleet import client
from treadle.fleet.bus import Bus

SLOW = "null:60:600"


async def until_listed(web: Web, query: str, count: int) -> dict[str, Any]:
    """The list, as soon as what was just changed is in the index."""
    async with asyncio.timeout(WAIT):
        while len((found := await web.get(f"/orders?{query}"))["orders"]) != count:
            await asyncio.sleep(0.02)
    return dict(found)


async def test_an_order_is_given_watched_and_its_receipt_read(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node()
    given = await web.post("/orders", {"task": "do it", "agent": "null:0.1:3", "project": "p"}, status=201)
    assert given["new"]
    await client.wait(bus, given["id"], WAIT)
    listed = await until_listed(web, "project=p&state=done", 1)
    assert listed["orders"][0]["title"] == "do it" and listed["total"] == 1 and listed["left_out"] == 0
    shown = await web.get(f"/orders/{given['id'][:6]}")
    assert shown["order"]["state"] == "done" and shown["spec"]["agent"] == "null:0.1:3"
    assert shown["spec"]["by"].endswith("(test)")
    receipt = await web.get(f"/orders/{given['id']}/receipt")
    assert receipt["outcome"] == "done" and receipt == shown["receipt"]
    async with asyncio.timeout(WAIT):
        while len((page := await web.get(f"/orders/{given['id']}/events"))["events"]) < 3:
            await asyncio.sleep(0.02)
    assert [each["event"]["text"] for each in page["events"]] == ["1 of 3", "2 of 3", "3 of 3"]
    last = page["events"][-1]
    whole = await web.get(f"/orders/{given['id']}/event?seq={last['seq']}&n={last['n']}")
    assert whole["text"] == "3 of 3"


async def test_the_same_key_gives_the_same_order(web: Web) -> None:
    body, key = {"task": "once", "agent": "null"}, {"idempotency-key": "nightly 7"}
    first = await web.http.post("/api/v1/orders", json=body, headers=key)
    second = await web.http.post("/api/v1/orders", json=body, headers=key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"] and not second.json()["new"]


async def test_a_list_filters_before_it_cuts_and_says_what_it_left_out(web: Web, bus: Bus) -> None:
    await give(bus, *[spec(project="few" if number % 10 == 0 else "many") for number in range(30)])
    await until_listed(web, "count=100", 30)
    few = await web.get("/orders?project=few&count=2&facets=true")
    assert [row["project"] for row in few["orders"]] == ["few", "few"]
    assert (few["total"], few["left_out"]) == (3, 1) and few["facets"]["project"] == {"many": 27, "few": 3}
    seen, cursor = [], None
    while True:
        page = await web.get("/orders?count=7" + (f"&cursor={cursor}" if cursor else ""))
        seen += [row["id"] for row in page["orders"]]
        cursor = page["next"]
        if cursor is None:
            break
        assert page["left_out"] == 30 - len(seen)
    assert len(seen) == len(set(seen)) == 30


async def test_what_is_wrong_with_a_request_is_told_in_one_form(web: Web) -> None:
    async def refused(method: str, path: str, status: int, code: str, **options: Any) -> None:
        response = await web.http.request(method, f"/api/v1{path}", **options)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert error["code"] == code and error["message"] and error["retryable"] in (True, False)

    await refused("GET", "/orders/nobody", 404, "not_found")
    await refused("GET", "/orders?count=0", 400, "bad_request")
    await refused("GET", "/orders?colour=red", 400, "bad_request")
    await refused("GET", "/orders?state=happy", 400, "bad_request")
    await refused("POST", "/orders", 400, "bad_request", json={"agent": "null"})
    await refused("POST", "/orders", 400, "bad_request", content=b"{", headers={"content-type": "application/json"})
    await refused("POST", "/orders", 415, "unsupported_media_type", content=b"task=x")
    deep = b"[" * 100_000
    await refused("POST", "/orders", 400, "bad_request", content=deep, headers={"content-type": "application/json"})
    await refused("POST", "/orders", 422, "config_error", json={"task": "   "})
    await refused("POST", "/pause", 422, "config_error", json={"scope": "everything"})
    given = await web.post("/orders", {"task": "x", "agent": "null"}, status=201)
    await refused("POST", f"/orders/{given['id']}/retry", 409, "local_error")
    await refused("GET", f"/orders/{given['id']}/receipt", 404, "not_found")
    await refused("POST", f"/orders/{given['id']}/answer", 404, "not_found", json={"decision": "allow"})
    method = await web.http.request("PATCH", "/api/v1/orders")
    assert method.status_code == 405


async def test_without_a_fleet_it_says_so_and_terminals_work(alone: Web) -> None:
    response = await alone.http.get("/api/v1/orders")
    assert response.status_code == 503 and response.json()["error"]["code"] == "no_fleet"
    assert "treadle fleet up" in response.json()["error"]["message"] and response.headers["retry-after"]
    assert await alone.get("/terminals") == []
    assert (await alone.http.get("/readyz")).json()["state"] in ("none", "away")


async def test_an_order_is_steered(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node(slots=1)
    (busy,) = await give(bus, spec(SLOW))
    await until_state(bus, busy, "running")
    (waits,) = await give(bus, spec())
    await web.post(f"/orders/{waits}/set", {"priority": 8, "why": "late"})
    async with asyncio.timeout(WAIT):
        while (await web.get(f"/orders/{waits}"))["order"].get("priority", 5) != 8:
            await asyncio.sleep(0.02)
        while (await web.get(f"/orders/{waits}/why")).get("waits", {}).get("kind") != "slot":
            await asyncio.sleep(0.02)
    await web.post(f"/orders/{busy}/cancel", {"why": "enough"})
    ended = await client.wait(bus, busy, WAIT)
    assert ended.state == "cancelled" and "(test)" in ended.why and "enough" in ended.why
    again = await web.post(f"/orders/{busy}/retry")
    assert again["new"] and (await web.post(f"/orders/{busy}/retry"))["id"]
    await web.post(f"/orders/{again['id']}/cancel")


async def test_a_question_is_answered_once_and_the_second_is_told_who_was_first(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "touch asked.txt"))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    (ask,) = await web.get("/approvals")
    assert ask["command"] == "touch asked.txt" and "always" in ask and ask["mode"] == "auto-edit"
    path = f"/orders/{order.id}"
    watcher = await web.http.post(f"/api/v1{path}/answer", json={"decision": "allow"}, headers=web.headers("watch"))
    assert watcher.status_code == 403
    await web.post(f"{path}/answer", {"decision": "allow", "number": ask["number"]})
    late = await web.http.post(f"/api/v1{path}/answer", json={"decision": "deny", "number": ask["number"]})
    assert late.status_code == 409 and "answered by" in late.json()["error"]["message"]
    assert (await client.wait(bus, order.id, 90)).state == "done"
    diff = await web.http.get(f"/api/v1{path}/diff")
    assert diff.headers["content-type"].startswith("text/plain") and "+two" in diff.text


async def test_an_answer_can_be_withdrawn_until_the_runner_has_it(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "touch asked.txt"))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    # A question that no runner waits for: its answer stays where it is.
    await client.answer(bus, order.id, "allow", number=7, by="ana")
    await web.post(f"/orders/{order.id}/withdraw", {"number": 7})
    again = await web.http.post(f"/api/v1/orders/{order.id}/withdraw", json={"number": 7})
    assert again.status_code == 404
    await client.answer(bus, order.id, "deny", number=7, by="ana")
    await web.post(f"/orders/{order.id}/answer", {"decision": "allow", "number": 1})
    await client.wait(bus, order.id, 90)
    taken = await web.http.post(f"/api/v1/orders/{order.id}/withdraw", json={"number": 1})
    assert taken.status_code == 409 and "taken by the runner" in taken.json()["error"]["message"]


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
    assert (repository / "a.txt").read_text() == "three"
    assert (await client.wait(bus, other.id, 90)).state == "failed"
    await until_listed(web, "needs=failed", 1)
    await web.post(f"/orders/{other.id}/reviewed")
    await until_listed(web, "needs=failed", 0)
    await web.post(f"/orders/{order.id}/discard")


async def test_a_message_is_queued_changed_and_taken_back_until_it_is_delivered(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())  # nobody runs it, so that nothing is delivered
    said = await web.post(f"/orders/{name}/messages", {"text": "be quick"}, status=201)
    number = said["key"].rpartition(".")[2]
    await web.http.put(f"/api/v1/orders/{name}/messages/{number}", json={"text": "be careful"})
    (message,) = await web.get(f"/orders/{name}/messages")
    assert (message["text"], message["state"]) == ("be careful", "queued")
    await web.http.put(f"/api/v1/orders/{name}/messages/{number}", json={"text": ""})
    assert (await web.get(f"/orders/{name}/messages"))[0]["state"] == "taken back"
    gone = await web.http.put(f"/api/v1/orders/{name}/messages/{number}", json={"text": "x"})
    assert gone.status_code == 409


async def test_the_fleet_is_paused_limited_and_budgeted(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node()
    await web.post("/pause", {"scope": "agent:null", "why": "release"})
    await web.http.put("/api/v1/budgets", json={"scope": "project:p", "tokens": 1000})
    await web.http.put("/api/v1/limits", json={"scope": "agent:null", "most": 2})
    await web.post("/nodes/n1/drain", {"why": "reboot"})
    async with asyncio.timeout(WAIT):
        while len(found := await web.get("/control")) < 4:
            await asyncio.sleep(0.02)
    assert "agent:null" in found["pauses"] and found["budgets"]["project:p"]["tokens"] == 1000
    assert found["limits"] == {"agent:null": 2} and "n1" in found["drained"]
    await web.post("/resume", {"scope": "agent:null"})
    await web.post("/nodes/n1/undrain")
    assert (await web.get("/nodes"))[0]["name"] == "n1"
    metrics = (await web.http.get("/metrics")).text
    assert "treadle_up 1" in metrics and 'treadle_orders{state="queued"} 0' in metrics and "treadle_lag" in metrics


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
    files = await web.get("/search?q=a.txt&kind=file")
    assert files["hits"] and files["hits"][0]["kind"] == "file"
    assert (await web.get('/search?q="AND (xyzzy*'))["total"] == 0 and (await web.get("/search"))["hits"] == []
