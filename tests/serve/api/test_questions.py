"""What agents ask and what people say to them, over HTTP."""

from pathlib import Path

import msgspec

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import edits, work
from tests.serve.conftest import Web, calls_of
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve.api import orders
from treadle.wire.fleet.records import AnswerRecord


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
    assert taken.status_code == 409 and "taken by the runner" in taken.json()["detail"]


async def test_a_message_is_queued_changed_and_taken_back_until_it_is_delivered(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())  # no one runs it, so that nothing is delivered
    said = await web.post(f"/orders/{name}/messages", {"text": "be quick"}, status=201)
    number = said["key"].rpartition(".")[2]
    await web.http.put(f"/api/v1/orders/{name}/messages/{number}", json={"text": "be careful"})
    (message,) = await web.get(f"/orders/{name}/messages")
    assert (message["text"], message["state"], message["key"]) == ("be careful", "queued", said["key"])
    assert "(test)" in message["by"] and not message.get("when")
    await web.post(f"/orders/{name}/messages", {"text": "stop", "when": "now"}, status=201)
    assert (await web.get(f"/orders/{name}/messages"))[1]["when"] == "now"
    await web.http.put(f"/api/v1/orders/{name}/messages/{number}", json={"text": ""})
    assert (await web.get(f"/orders/{name}/messages"))[0]["state"] == "taken back"
    gone = await web.http.put(f"/api/v1/orders/{name}/messages/{number}", json={"text": "x"})
    assert gone.status_code == 409


def test_who_may_do_what() -> None:
    assert calls_of(orders) == [
        "GET /approvals watch",
        "POST /orders/{id}/answer answer",
        "POST /orders/{id}/withdraw answer",
        "POST /orders/{id}/messages answer",
        "GET /orders/{id}/messages watch",
        "PUT /orders/{id}/messages/{number} answer",
    ]
