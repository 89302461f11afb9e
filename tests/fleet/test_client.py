"""Orders from submit to receipt, on a real engine, with runners as real processes."""

import asyncio
import os
import signal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give, runner_pid, spec, until_state
from tests.fleet.engine.buses import StoringClient
from tests.fleet.engine.test_bus import restart
from tests.waiting import stop
from treadle.errors import ConfigError, Denied, LocalError, NotFound, TimedOut, Unsupported
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet.messages import NodeAnswer, Wait, Why
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import (
    AgentChange,
    AnswerRecord,
    AskRecord,
    NodeRecord,
    Order,
    OrderReceipt,
    SayRecord,
    TakenRecord,
)
from treadle.wire.fleet.states import State


async def test_an_order_is_done_and_has_one_receipt(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec())
    order = await client.wait(bus, name, 60)
    receipt = await client.get_receipt(bus, name)
    assert order.state == "done" and order.attempt == 1 and order.node == "n1"
    assert receipt is not None and receipt.outcome == "done" and receipt.sealed().sha256 == receipt.sha256
    assert await bus.named(["active.*"]) == {} and await bus.named(["work.n1.*"]) == {}


async def test_of_two_answers_at_once_one_counts_and_the_other_hears_whose(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec())
    both = [client.answer(bus, name, word, number=1, by=word) for word in ("allow", "deny")]
    (refused,) = [each for each in await asyncio.gather(*both, return_exceptions=True) if each is not None]
    entry = await bus.get(f"answer.{name}.1")
    assert entry is not None and isinstance(refused, Denied)
    assert f"was answered by {msgspec.json.decode(entry.value)['by']} " in str(refused)


async def test_of_two_who_hand_an_order_over_at_once_one_hears_of_the_other(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bus.put("spec.o1", encode(Spec(id="o1", task="t")))
    change = AgentChange(at=1.0, to="claude", reason="person", why="", by="ana", before="native")
    order = Order(id="o1", state="running", changed=1.0, agent="native")
    await bus.put("order.o1", encode(replace(order, handing=change)))
    await client.hand(bus, "o1", "claude")
    with pytest.raises(LocalError, match="ana is handing the order o1 to claude already"):
        await client.hand(bus, "o1", "codex")
    await bus.put("order.o1", encode(replace(order, agent="codex")))
    with pytest.raises(LocalError, match="codex has the order o1 already"):
        await client.hand(bus, "o1", "codex")
    monkeypatch.setattr(client, "HANDED_SECONDS", 0.1)
    await client.hand(bus, "o1", "claude")  # no one schedules: what is wanted is stored


async def test_the_events_of_a_run_are_numbered_and_replayable_from_any_place(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:0.2:7"))
    await client.wait(bus, name, 60)
    seen = [each async for each in client.events(bus, name)]
    assert [each.n for each in seen] == list(range(1, 8)) and not any(each.gap for each in seen)
    later = [each async for each in client.events(bus, name, start=seen[3].at)]
    assert [each.n for each in later] == [each.n for each in seen if each.at > seen[3].at]
    assert [each async for each in client.events(bus, name, start=seen[-1].at)] == []


@pytest.mark.slow
async def test_a_killed_runner_is_replaced_at_once_and_the_history_says_why(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:1.5:5"))
    await until_state(bus, name, "running")
    os.kill(await runner_pid(name), signal.SIGKILL)
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and [each.outcome for each in order.attempts] == ["lost", "done"]
    assert "runner was ended" in order.attempts[0].why
    ended = [each for each in [one async for one in client.events(bus, name)] if each.end]
    assert [each.attempt for each in ended] == [1]


@pytest.mark.slow
async def test_a_runner_that_slept_through_its_replacement_writes_nothing_that_counts(
    bus: Bus, start_node: Start
) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:2:4"))
    await until_state(bus, name, "running")
    stale = await runner_pid(name)
    stop(stale)
    try:
        order = await client.wait(bus, name, 60)
        receipt = await client.get_receipt(bus, name)
    finally:
        os.kill(stale, signal.SIGCONT)
    async with asyncio.timeout(60):
        while os.path.exists(f"/proc/{stale}") and not _is_zombie(stale):
            await asyncio.sleep(0.05)
    assert order.state == "done" and order.attempt == 2 and "not heard" in order.attempts[0].why
    assert await client.get_order(bus, name) == order and await client.get_receipt(bus, name) == receipt
    events = [each async for each in client.events(bus, name) if each.attempt == 1]
    assert events[-1].end  # nothing of the first attempt comes after its end


def _is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


async def test_a_poison_order_stops_costing_after_its_attempts(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:60:2", attempts=2))
    for attempt in (1, 2):
        os.kill(await runner_pid(name, attempt), signal.SIGKILL)
    order = await client.wait(bus, name, 60)
    assert order.state == "failed" and "given up after 2 attempts" in order.why
    receipt = await client.get_receipt(bus, name)
    assert receipt is not None and receipt.outcome == "failed" and len(receipt.attempts) == 2


@pytest.mark.slow
async def test_a_restarted_node_adopts_its_runners(bus: Bus, start_node: Start) -> None:
    first = await start_node()
    (name,) = await give(bus, spec("null:3:6"))
    await until_state(bus, name, "running")
    pid = await runner_pid(name)
    first.stop()
    await start_node()
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.attempt == 1 and await _pid_of(bus, name) == pid


async def _pid_of(bus: Bus, name: str) -> int:
    from treadle.fleet.run import runs

    with open(os.path.join(runs.directory(name, 1), "runner.json"), "rb") as file:
        return int(msgspec.json.decode(file.read())["pid"])


@pytest.mark.slow
async def test_an_outage_longer_than_the_lease_costs_no_runner_and_no_event(
    fleet: places.Fleet, bus: Bus, start_node: Start
) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:4:40"))
    await until_state(bus, name, "running")
    restart(fleet)
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.attempt == 1
    seen = [each async for each in client.events(bus, name)]
    assert [each.n for each in seen] == list(range(1, 41))


async def test_a_running_order_is_cancelled_with_who_and_why(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:60:60"))
    await until_state(bus, name, "running")
    await client.cancel(bus, name, why="wrong branch", by="ana")
    order = await client.wait(bus, name, 60)
    assert order.state == "cancelled" and "ana" in order.why and "wrong branch" in order.why
    with pytest.raises(LocalError, match="ended already"):
        await client.cancel(bus, name)


async def test_a_priority_or_budget_that_cannot_be_is_refused_before_it_is_asked_for() -> None:
    bus = StoringClient().bus()
    for priority in (-1, 10):
        with pytest.raises(ConfigError, match=f"the priority {priority} is not between 0 and 9"):
            await client.set_fields(bus, "a", priority=priority)
    with pytest.raises(ConfigError, match="'node:n1' has no budget"):
        await client.set_budget(bus, "node:n1", usd=1.0)


async def test_a_waiting_order_is_cancelled_without_a_node(bus: Bus, start_node: Start) -> None:
    await start_node(slots=0)
    (name,) = await give(bus, spec())
    await client.cancel(bus, name, by="ana")
    order = await client.wait(bus, name, 60)
    assert order.state == "cancelled" and order.attempt == 0


async def test_an_order_ends_at_its_time_limit(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:60:60", limits=OrderLimits(seconds=0.5)))
    order = await client.wait(bus, name, 60)
    assert order.state == "failed" and "did not end within" in order.why


@pytest.mark.slow
async def test_a_node_that_goes_away_hands_its_orders_to_another(bus: Bus, start_node: Start) -> None:
    first = await start_node("n1", slots=1)
    (name,) = await give(bus, spec("null:60:200"))
    await until_state(bus, name, "running")
    pid = await runner_pid(name)
    await start_node("n2", slots=1)
    first.stop()
    async with asyncio.timeout(60):
        while {each.name: each.alive for each in await client.nodes(bus)} != {"n1": False, "n2": True}:
            await asyncio.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while (await client.get_order(bus, name)).node != "n2":
            await asyncio.sleep(0.02)
    await client.cancel(bus, name)
    order = await client.wait(bus, name, 60)
    assert [each.node for each in order.attempts] == ["n1", "n2"] and order.attempts[0].outcome == "lost"


async def test_what_cannot_be_the_name_of_an_order_is_not_found(bus: Bus) -> None:
    await give(bus, spec())
    for name in ("*", ">", "two words", "a.b", "", "x" * 65, "Ärger"):
        with pytest.raises(NotFound, match="there is no order"):
            await client.resolve(bus, name)


async def test_a_connection_in_a_role_has_only_its_rights_and_one_without_a_role_the_most(bus: Bus) -> None:
    async with client.connected("watch") as watching:
        with pytest.raises(Denied, match="may not write"):
            await watching.publish("$KV.fleet.order.a", b"1", None)
    async with client.connected() as widest:
        await widest.put("control", b"{}")
        assert await widest.get("control") is not None


# From the store alone, as a scheduler would have left it...


async def stored(bus: Bus, name: str, state: State | None = None, agent: str = "null", **fields: Any) -> None:
    await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", agent=agent, base="b0")))
    if state is not None:
        await bus.put(f"order.{name}", encode(Order(id=name, state=state, changed=1.0, **fields)))
        await bus.put(f"active.{name}", b"{}")


async def test_an_order_is_named_by_the_beginning_of_its_id_where_that_is_enough(bus: Bus) -> None:
    for name in ("aa1", "aa2", "aa", "b1"):
        await stored(bus, name)
    await stored(bus, "b2")
    await bus.purge("spec.b2")
    assert [await client.resolve(bus, name) for name in ("aa", "aa2", "b")] == ["aa", "aa2", "b1"]
    with pytest.raises(NotFound, match="3 orders begin with 'a': aa, aa1, aa2") as refused:
        await client.resolve(bus, "a")
    assert refused.value.hint == "use more characters of it"
    for wrong in ("", "x", "*", "A", "b2"):
        with pytest.raises(NotFound, match="there is no order"):
            await client.resolve(bus, wrong)
    with pytest.raises(NotFound, match="there is no order 'x'"):
        await client.get_order(bus, "x")
    await bus.put("spec.odd", b'{"id": "odd"}')
    assert (await client.get_order(bus, "odd")).state == "queued"


async def test_an_order_is_shown_with_all_that_belongs_to_it(bus: Bus) -> None:
    await stored(bus, "a", "done", why="so", reason="x")
    await bus.put("receipt.a", encode(OrderReceipt(order="a", outcome="done")))
    await bus.put("say.a.1", encode(SayRecord(text="hi")))
    shown = await client.show(bus, "a")
    assert (shown["spec"]["id"], shown["order"]["why"], shown["receipt"]["outcome"]) == ("a", "so", "done")
    assert [each["text"] for each in shown["messages"]] == ["hi"] and shown["why"] == {}
    assert await client.why(bus, "a") == Why(state="done", why="so", reason="x")
    await stored(bus, "b")
    shown = await client.show(bus, "b")
    assert shown["receipt"] is None and shown["why"]["waits"]["kind"] == "scheduler"
    assert await client.whys(bus) == {} and await client.nodes(bus) == []


async def test_what_the_scheduler_answers_is_joined_with_what_is_stored(bus: Bus) -> None:
    await bus.put("node.gone", encode(NodeRecord(name="gone", host="h")))
    (alone,) = await client.nodes(bus)
    assert (alone.says, alone.alive, alone.host) == ("no scheduler is up", False, "h")
    answers: dict[str, Any] = {
        "nodes": [NodeAnswer(name="n1", alive=True, says="x", slots=3)],
        "all": {"a": Why(state="queued")},
        "why": Why(),
    }

    async def answer(subject: str, data: bytes) -> bytes:
        return encode(answers[subject.split(".")[2]])

    await bus.serve("fleet.ask.>", answer)
    gone, live = await client.nodes(bus)
    assert gone.says == "not heard by this scheduler" and (live.name, live.alive, live.slots) == ("n1", True, 3)
    assert await client.whys(bus) == {"a": Why(state="queued")}
    await stored(bus, "a")
    unseen = await client.why(bus, "a")
    assert unseen.state == "queued" and unseen.waits == Wait(kind="order", text="the scheduler has not seen it yet")
    answers["why"] = Why(state="running", node="n1")
    assert await client.why(bus, "a") == answers["why"]


@pytest.mark.parametrize("scope", ["", "fleets", "order:", "machine:x", "order"])
def test_what_is_no_scope_is_refused(scope: str) -> None:
    with pytest.raises(ConfigError, match="is not a scope") as refused:
        client.checked_scope(scope)
    assert str(refused.value.hint).startswith("fleet, or KIND:NAME with KIND one of order, label, agent")
    assert client.checked_scope("node:n1") == "node:n1" and client.checked_scope("fleet") == "fleet"


async def test_an_order_is_tried_again_once_and_work_is_sent_back_with_comments(bus: Bus) -> None:
    await stored(bus, "runs", "running")
    with pytest.raises(LocalError, match="the order runs has not ended: it is running"):
        await client.retry(bus, "runs")
    again = Spec(id="o", task="t", every=5.0, not_before=9.0, base="b0", comments="before", continues="c0")
    await bus.put("spec.o", encode(again))
    await bus.put("order.o", encode(Order(id="o", state="failed", changed=1.0, result={"commit": "c1"})))
    given = await client.retry(bus, "o", by="ana", more={"verify": "make"})
    made = await client.get_spec(bus, given.id)
    assert given.new and (made.retry_of, made.by, made.verify, made.every, made.not_before) == (
        "o",
        "ana",
        "make",
        0.0,
        0.0,
    )
    assert (made.base, made.comments, made.continues, made.cron) == ("b0", "before", "c0", "") and made.created > 1e9
    assert not (await client.retry(bus, "o")).new
    await stored(bus, "p", "done", result={"commit": "c1"})
    with pytest.raises(ConfigError, match="there is nothing to send back") as refused:
        await client.send_back(bus, "p", " \n")
    assert refused.value.hint == "describe what should change"
    back = await client.get_spec(bus, (await client.send_back(bus, "p", " Say more. ")).id)
    assert (back.comments, back.base, back.continues, back.by) == ("Say more.", "c1", "p", client.me())
    handed = Spec(id="h", task="t", agent="claude", model="opus", credential="work")
    await bus.put("spec.h", encode(handed))
    await bus.put("order.h", encode(Order(id="h", state="done", changed=1.0, agent="codex")))
    back = await client.get_spec(bus, (await client.send_back(bus, "h", "Say more.")).id)
    assert (back.agent, back.model, back.credential) == ("codex", None, ""), "who worked on it last has the session"
    await stored(bus, "q", "done", retried_as="later")
    assert await client.retry(bus, "q") == client.Given(id="later", new=False)


async def ask(bus: Bus, name: str, number: int, deadline: float) -> None:
    record = AskRecord(order=name, number=number, asked_at=1.0, deadline=deadline, default="deny")
    await bus.put(f"ask.{name}.{number}", encode(record))
    await stored(bus, name, "asking", open_ask=f"{name}.{number}")


async def test_questions_are_listed_by_deadline_answered_once_and_answers_withdrawn_until_taken(bus: Bus) -> None:
    assert await client.approvals(bus) == []
    await ask(bus, "late", 2, 9.0)
    await ask(bus, "soon", 1, 5.0)
    await stored(bus, "quiet", "running")
    assert [(each.order, each.number) for each in await client.approvals(bus)] == [("soon", 1), ("late", 2)]
    with pytest.raises(NotFound, match="the order quiet has no open question") as refused:
        await client.answer(bus, "quiet", "allow")
    assert refused.value.hint == "`treadle fleet approvals` lists them"
    with pytest.raises(ConfigError, match="'yes' is not an answer") as unclear:
        await client.answer(bus, "soon", "yes")
    assert unclear.value.hint == "allow or deny"
    with pytest.raises(NotFound, match="soon.1 has no answer to withdraw"):
        await client.withdraw(bus, "soon", 1)
    await client.answer(bus, "soon", "allow", text="go", scope="session", by="ana")
    entry = await bus.get("answer.soon.1")
    assert entry is not None
    record = msgspec.json.decode(entry.value, type=AnswerRecord)
    assert (record.decision, record.text, record.scope, record.by) == ("allow", "go", "session", "ana")
    with pytest.raises(Denied, match="soon.1 was answered by ana 0 s ago: allow"):
        await client.answer(bus, "soon", "deny")
    await client.withdraw(bus, "soon", 1)
    with pytest.raises(NotFound):
        await client.withdraw(bus, "soon", 1)
    await client.answer(bus, "soon", "deny", number=1)
    entry = await bus.get("answer.soon.1")
    assert entry is not None and msgspec.json.decode(entry.value, type=AnswerRecord).decision == "deny"
    await bus.put(f"taken.soon.1.{entry.revision}", encode(TakenRecord(by="n1")))
    with pytest.raises(LocalError, match="the runner already has the answer to soon.1") as taken:
        await client.withdraw(bus, "soon", 1)
    assert taken.value.hint == "send it a message, or cancel the order"


async def test_messages_are_numbered_changed_and_taken_back_until_they_are_delivered(bus: Bus) -> None:
    await stored(bus, "a", "running")
    await stored(bus, "over", "failed")
    await stored(bus, "deaf", "running", agent="copilot")
    keys = [await client.say(bus, "a", str(number), when="turn", by="ana") for number in range(2)]
    assert keys == ["a.1", "a.2"]
    await client.edit_message(bus, "a.1", "other")
    await client.edit_message(bus, "a.2", "")
    (_, first), (_, second) = await client.messages(bus, "a")
    assert (first.text, first.state, first.when, first.by, first.format) == ("other", "queued", "turn", "ana", 1)
    assert second.state == "taken back" and second.text == "1"
    for key, why in (("a.2", "the message a.2 was delivered already"), ("a.3", "there is no message a.3")):
        with pytest.raises(LocalError, match=why):
            await client.edit_message(bus, key, "x")
    with pytest.raises(ConfigError, match="'soon' is not a time for a message") as refused:
        await client.say(bus, "a", "x", when="soon")
    assert refused.value.hint == "now, turn, or nothing for the next step"
    with pytest.raises(LocalError, match="the order over has ended: failed") as over:
        await client.say(bus, "over", "x")
    assert over.value.hint == "`treadle fleet again` continues it"
    with pytest.raises(Unsupported) as deaf:
        await client.say(bus, "deaf", "x")
    assert "--after-turn, --now" in (deaf.value.hint or "") and deaf.value.details == {"ability": "steer"}
    assert await client.say(bus, "deaf", "x", when="now") == "deaf.1"
    assert await client.deaf_agent(bus, "deaf") == "copilot" and await client.deaf_agent(bus, "a") == ""
    await bus.put("spec.typed", encode(Spec(id="typed", task="t", agent="copilot", terminal=True)))
    await bus.put("spec.odd", b"{")
    assert await client.deaf_agent(bus, "typed") == await client.deaf_agent(bus, "odd") == ""


async def test_who_waits_hears_each_question_once_and_may_stop_at_the_first(bus: Bus) -> None:
    await ask(bus, "a", 1, 5.0)
    heard: list[str] = []
    hear = lambda record: heard.append(f"{record.order}.{record.number}")  # noqa: E731
    assert (await client.wait(bus, "a", 60, hear, or_asks=True)).state == "asking" and heard == ["a.1"]
    waiting = asyncio.create_task(client.wait(bus, "a", 60, hear))
    for count, number in ((2, 1), (2, 2), (3, 2)):
        async with asyncio.timeout(60):
            while len(heard) < count:
                await asyncio.sleep(0.01)
        await ask(bus, "a", number, 5.0)
    await stored(bus, "a", "done")
    assert (await waiting).state == "done" and heard == ["a.1", "a.1", "a.2"]
    assert (await client.wait(bus, "a")).state == "done"
    await stored(bus, "b", "running")
    with pytest.raises(TimedOut, match="the order b has not ended within 0.05 s"):
        await client.wait(bus, "b", 0.05)


async def test_changes_come_from_now_on_or_from_a_place_and_removed_keys_are_none(bus: Bus) -> None:
    start = await bus.last_revision() + 1
    await stored(bus, "a", "queued")
    await bus.purge("order.a")
    await stored(bus, "b", "queued")
    changes = client.changes(bus, start=start)
    later = client.changes(bus, pattern="node.*")
    listening = asyncio.ensure_future(anext(later))
    async with asyncio.timeout(60):
        assert (await anext(changes)).key == "order.b"
        while not listening.done():
            await bus.put("node.n1", b"{}")
            await asyncio.sleep(0.02)
    assert listening.result().key == "node.n1"
    await changes.aclose()
    await later.aclose()
