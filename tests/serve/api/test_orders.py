"""Orders over HTTP: submitted, steered, asked about and answered, and what can be chosen for a new one."""

import asyncio
from pathlib import Path

import msgspec

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import edits, git, work
from tests.serve.conftest import WAIT, Web, until_listed
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.settings import trust
from treadle.wire.fleet.records import AnswerRecord

SLOW = "null:600:600"


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
    assert (shown["deaf"], shown["ask"], shown["answer"], shown["first_error"]) == (False, None, None, None)
    assert shown["why"]["state"] == "done" == (await web.get(f"/orders/{given['id']}/why"))["state"]
    alone = await web.http.get(f"/api/v1/orders/{given['id']}/race")
    assert alone.status_code == 404 and "is in no race" in alone.text
    async with asyncio.timeout(WAIT):
        while len((page := await web.get(f"/orders/{given['id']}/events"))["events"]) < 3:
            await asyncio.sleep(0.02)
    assert [each["event"]["text"] for each in page["events"]] == ["1 of 3", "2 of 3", "3 of 3"]
    last = page["events"][-1]
    whole = await web.get(f"/orders/{given['id']}/event?seq={last['seq']}&n={last['n']}")
    assert whole["text"] == "3 of 3"
    one = await web.get(f"/orders/{given['id']}/events?after={page['events'][0]['seq']}&count=1")
    assert one["events"] == [] or one["events"][0]["n"] > page["events"][0]["n"]
    assert shown["events"] <= 3 and (await web.get(f"/orders/{given['id']}"))["events"] == page["total"] == 3


async def test_a_list_filters_before_it_cuts_and_says_what_it_left_out(web: Web, bus: Bus) -> None:
    await give(bus, *[spec(project="few" if number % 10 == 0 else "many") for number in range(30)])
    await until_listed(web, "count=100", 30)
    few = await web.get("/orders?project=few&count=2&facets=true")
    assert [row["project"] for row in few["orders"]] == ["few", "few"]
    assert (few["total"], few["left_out"]) == (3, 1) and few["facets"]["project"] == {"many": 27, "few": 3}
    assert few["facets"]["needs"] == {"": 3}
    seen, cursor = [], None
    while True:
        page = await web.get("/orders?count=7" + (f"&cursor={cursor}" if cursor else ""))
        seen += [row["id"] for row in page["orders"]]
        cursor = page["next"]
        if cursor is None:
            break
        assert page["left_out"] == 30 - len(seen)
    assert len(seen) == len(set(seen)) == 30


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
    await web.post(f"/orders/{waits}/set", {"usd": 2.5, "turns": 4})
    async with asyncio.timeout(WAIT):
        while not (found := (await web.get(f"/orders/{waits}"))["order"]).get("limits", {}).get("usd"):
            await asyncio.sleep(0.02)
    assert (found["limits"]["usd"], found["limits"]["turns"]) == (2.5, 4) and found["limits"].get("tokens") is None
    assert found["priority"] == 8, "what is not named stays"
    await web.post(f"/orders/{waits}/hand", {"to": "codex", "why": "faster"})
    async with asyncio.timeout(WAIT):
        while not (handed := (await web.get(f"/orders/{waits}"))["order"].get("handed")):
            await asyncio.sleep(0.02)
    assert (handed[0]["to"], handed[0]["reason"]) == ("codex", "person") and "test" in handed[0]["by"]
    assert "no agent 'nobody'" in str(await web.post(f"/orders/{waits}/hand", {"to": "nobody"}, status=422))
    await web.post(f"/orders/{busy}/cancel", {"why": "enough"})
    ended = await client.wait(bus, busy, WAIT)
    assert ended.state == "cancelled" and "(test)" in ended.why and "enough" in ended.why
    again = await web.post(f"/orders/{busy}/retry")
    assert again["new"] and (await web.post(f"/orders/{busy}/retry"))["id"]
    await web.post(f"/orders/{again['id']}/cancel")
    stored = (await web.get(f"/orders/{waits}"))["order"]
    assert "late" in str(stored["notes"]) and "(test)" in str(stored["notes"])


async def test_every_field_of_an_order_arrives(web: Web, bus: Bus) -> None:
    """Those that this call once dropped without a word, too."""
    body = {
        "task": "x",
        "agent": SLOW,
        "symbols": ["F12"],
        "terminal": True,
        "park": 5.0,
        "stall_seconds": 7.0,
        "on_stall": "cancel",
        "race": "r1",
        "limits": {"usd": 2.5},
        "policy": {"deny_write": ["secrets/**"]},
        "key": "once",
    }
    given = await web.post("/orders", body, status=201)
    stored = await client.get_spec(bus, given["id"])
    assert (stored.symbols, stored.terminal, stored.park, stored.stall_seconds) == (("F12",), True, 5.0, 7.0)
    assert (stored.on_stall, stored.race, stored.limits.usd, stored.policy.deny_write) == (
        "cancel",
        "r1",
        2.5,
        ("secrets/**",),
    )
    again = await web.http.post("/api/v1/orders", json=body)
    assert again.status_code == 200 and again.json()["id"] == given["id"]


async def test_a_field_that_an_order_does_not_have_is_refused_with_its_place(web: Web, bus: Bus) -> None:
    for wrong, place in (
        ({"tsk": "x"}, "`tsk`"),
        ({"usd": 3}, "`usd`"),
        ({"limits": {"max_usd": 3}}, "`max_usd` - at `$.limits`"),
        ({"policy": {"deny_wrte": ["secrets/**"]}}, "`deny_wrte` - at `$.policy`"),
        ({"by": "root"}, "`by`"),
        ({"priority": 17}, "`$.priority`"),
    ):
        refused = await web.http.post("/api/v1/orders", json={"task": "x", **wrong})
        assert refused.status_code == 400 and place in refused.text, refused.text
    headers = {"idempotency-key": "one"}
    differs = await web.http.post("/api/v1/orders", json={"task": "x", "key": "two"}, headers=headers)
    assert differs.status_code == 422 and "$.key" in differs.text
    assert await bus.keys("spec.*") == []


async def test_a_question_is_answered_once_and_the_second_is_told_who_was_first(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    (ask,) = await web.get("/approvals")
    assert ask["command"] == "install /dev/null asked.txt" and "always" in ask and ask["mode"] == "auto-edit"
    path = f"/orders/{order.id}"
    watcher = await web.http.post(f"/api/v1{path}/answer", json={"decision": "allow"}, headers=web.headers("watch"))
    assert watcher.status_code == 403
    await web.post(f"{path}/answer", {"decision": "allow", "number": ask["number"], "text": "go on"})
    entry = await bus.get(f"answer.{order.id}.{ask['number']}")
    assert entry is not None
    stored = msgspec.json.decode(entry.value, type=AnswerRecord)
    assert (stored.decision, stored.text, stored.scope) == ("allow", "go on", "once") and "(test)" in stored.by
    late = await web.http.post(f"/api/v1{path}/answer", json={"decision": "deny", "number": ask["number"]})
    assert late.status_code == 409 and "answered by" in late.json()["detail"]
    assert (await client.wait(bus, order.id, 90)).state == "done"
    diff = await web.http.get(f"/api/v1{path}/diff")
    assert diff.headers["content-type"].startswith("text/plain") and "+two" in diff.text


async def test_an_answer_can_be_withdrawn_until_the_runner_has_it(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
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
    assert taken.status_code == 409 and "the runner already has" in taken.json()["detail"]


async def test_a_repository_has_branches_and_what_its_file_says_once_it_is_trusted(web: Web, repository: Path) -> None:
    git(repository, "branch", "later")
    (repository / ".treadle").mkdir()
    (repository / ".treadle" / "fleet.toml").write_text(
        '[project]\nagent = "claude"\nverify = "make test"\n[templates.fix]\nattempts = 2\n'
    )
    inside = repository / "sub"
    inside.mkdir()
    found = await web.get("/repository", params={"root": str(inside)})
    assert found["top"] == str(repository) and found["branches"] == ["main", "later"] and found["head"] == "main"
    assert found["project"] == {} and found["templates"] == {} and "not trusted" in found["ignored"][0]
    trust.trust(str(repository))
    found = await web.get("/repository", params={"root": str(repository)})
    assert found["project"] == {"agent": "claude", "verify": "make test"} and found["ignored"] == []
    assert found["templates"] == {"fix": {"agent": "claude", "verify": "make test", "attempts": 2}}
