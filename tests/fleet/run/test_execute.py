"""What an attempt does before and after the agent: it sets up, and verifies."""

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, git, model, read, says, work, write
from tests.waiting import until
from treadle.errors import TimedOut
from treadle.events import ErrorInfo, Failed, ToolEnded, ToolStarted, Usage
from treadle.fleet import client
from treadle.fleet.engine.bus import INBOX, Bus
from treadle.fleet.engine.streams import Pull
from treadle.fleet.run.attempt import RunningAttempt
from treadle.fleet.run.execute import Claimed, Execution
from treadle.session import Answer, SessionSpec
from treadle.wire.fleet.messages import RunBeatAnswer
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import AgentChange, Order


async def test_work_that_is_not_verified_is_not_done(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"), verify="false")
    broken = work(repository, edits(tmp_path, "y", "a.txt", "two"), setup="echo no such tool >&2; exit 3")
    await give(bus, order, broken)
    ended = [await client.wait(bus, each.id, 90) for each in (order, broken)]
    assert ended[0].state == "failed" and "not verified" in ended[0].why
    assert ended[1].state == "failed" and "no such tool" in ended[1].why


async def test_an_agent_that_ends_before_its_first_event_is_tried_again_where_the_work_is_to_land(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    order = replace(work(repository, "", backoff=0.1, attempts=2), agent="acp:false")
    orders = [order, replace(order, id="b", land="main")]
    await give(bus, *orders)
    ended = [await client.wait(bus, each.id, 90) for each in orders]
    assert [(each.state, len(each.attempts)) for each in ended] == [("failed", 1), ("failed", 2)]


@pytest.mark.slow
async def test_a_failed_check_is_sent_back_to_the_agent_within_its_attempts(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    fixes = model(
        tmp_path,
        says("I see.", read("new.txt"), write("new.txt", "good"), when="new.txt says bad"),
        says("", write("new.txt", "bad"), turn=1),
        says("Done.", times="always"),
    )
    check = "grep good new.txt || { echo new.txt says $(cat new.txt); exit 1; }"
    order = work(repository, fixes, verify=check, retry_on=("verify",), backoff=0.1)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and len(ended.attempts) == 2, ended
    first, second = ended.attempts
    assert (first.fault, first.output.strip(), second.resumed) == ("verify", "new.txt says bad", "session")
    assert ended.result["verified"] is True


def executed(bus: Bus, tmp_path: Path, **fields: Any) -> Execution:
    order = Order(id="o", state="running", changed=1.0, title="T", attempt=1, node="n1")
    return Execution(RunningAttempt(str(tmp_path), Spec(id="o", task="t", **fields), order, 1.0, bus))


async def test_what_an_agent_does_is_seen_from_its_events(bus: Bus, tmp_path: Path) -> None:
    one = executed(bus, tmp_path, agent="native", credential="work")
    begun = one.activity()
    assert (begun.doing, begun.began, begun.repeats, begun.pid) == ("starting", False, 0, os.getpid())
    for call in ("a", "b"):
        await one.take(ToolStarted(call=call, name="bash", command="make", args={"x": 1}))
    seen = one.activity()
    assert (seen.doing, seen.open_tools, seen.repeats, seen.began) == ("bash make", ["bash make"] * 2, 2, True)
    await one.take(ToolStarted(call="c", name="read", paths=("a", "b")))
    await one.take(ToolEnded(call="a", name="bash", result=""))
    await one.take(Usage(input_tokens=7))
    seen = one.activity()
    assert (seen.doing, seen.open_tools, seen.repeats) == ("model", ["bash make", "read a b"], 1)
    assert seen.used.tokens == 7 and seen.last_event >= begun.last_event > 1e9 and (seen.since or 0.0) > 1e9
    before = time.time()
    await one.take(Failed(error=ErrorInfo(code="rate_limited", message="slow", retry_after_ms=2000)))
    await one.take(Failed(error=ErrorInfo(code="other", message="x")))
    entry = await bus.api("STREAM.INFO.FLEET_IN", {"subjects_filter": ">"})
    assert entry["state"]["subjects"] == {"fleet.in.node.n1.rate": 1}
    pull = Pull(bus, INBOX, durable="inbox")
    (message,) = await pull.next(60)
    await pull.close()
    told = msgspec.json.decode(message.data)
    assert (told["account"], told["why"]) == ("work", "slow") and 0 <= told["until"] - before - 2.0 < 60
    one.seen_in_terminal("idle", 5.0)
    seen = one.activity()
    assert seen.doing == "terminal: idle" and seen.last_event < time.time() - 4
    since = seen.since
    one.seen_in_terminal("idle", 0.0)
    assert one.activity().since == since
    one.attempt.superseded.set()
    await one.take(ToolStarted(call="z", name="late"))
    assert "late" not in str(one.activity().open_tools), "nothing that it does counts any more"
    await one.attempt.log.finish(60)
    assert len([each async for each in client.events(bus, "o")]) == 7


@pytest.mark.slow
async def test_a_check_that_no_one_asked_for_ends_at_the_time_limit_and_the_work_is_done(
    bus: Bus, repository: Path, tmp_path: Path
) -> None:
    need("bwrap")
    (repository / "Makefile").write_text("test:\n\tsleep 600.25\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "check")
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"))
    fields = {name: getattr(order, name) for name in ("agent", "root", "base", "model", "mode")}
    one = executed(bus, tmp_path, **fields)
    running = asyncio.create_task(one.run())
    await one.learn(RunBeatAnswer(holds=True))
    await until(lambda: running.done() or _runs("600.25"))
    one.attempt.limits = OrderLimits(seconds=0.05)
    ended = await asyncio.wait_for(running, 60)
    assert (ended.outcome, one.attempt.stopped) == ("done", None), ended
    assert ended.result is not None and ended.result["ending"] == "unverified: there was no time left to check it"
    await one.attempt.log.finish(60)


def _runs(word: str) -> bool:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in place.read_bytes():
                return True
    return False


async def test_an_order_that_is_stopped_is_stopped_once_and_one_that_is_parked_says_so(
    bus: Bus, tmp_path: Path
) -> None:
    one = executed(bus, tmp_path, agent="null:600")
    running = asyncio.create_task(one.run())
    await one.park()
    await one.stop(TimedOut("later"))
    ended = await asyncio.wait_for(running, 60)
    assert (ended.outcome, one.attempt.parked) == ("cancelled", True)
    assert ended.why == "it waits for an answer and freed its slot" and one.attempt.may_go_on.is_set()
    assert not await one.steer("x") and not await one.say_next("x", now=True)
    await one.answer("r", Answer(decision="allow"))
    await one.attempt.log.finish(1)
    (tmp_path / "late").mkdir()
    late = executed(bus, tmp_path / "late", agent="null:600")
    late.attempt.limits = OrderLimits(seconds=0.05)
    ended = await asyncio.wait_for(late.run(), 60)
    assert (ended.outcome, ended.why, ended.reason) == ("failed", "the order did not end within 0.05 s", "timeout")
    await late.attempt.log.finish(1)
    (tmp_path / "killed").mkdir()
    killed = executed(bus, tmp_path / "killed", agent="null:600")
    killed.kill()
    assert (await asyncio.wait_for(killed.run(), 60)).outcome == "cancelled"
    await killed.attempt.log.finish(1)


async def test_what_this_node_lacks_goes_to_another_and_what_is_wrong_with_the_order_fails(
    bus: Bus, tmp_path: Path
) -> None:
    for name, fields, outcome, reason in (
        ("a", {"agent": "native", "root": "/nowhere"}, "not_here", ""),
        ("b", {"agent": "nobody-here"}, "failed", "config_error"),
        ("c", {"agent": "null", "verify": "true", "root": "/nowhere"}, "not_here", ""),
        ("handed", {"agent": "nobody-here"}, "not_here", "config_error"),
    ):
        (tmp_path / name).mkdir()
        one = executed(bus, tmp_path / name, **fields)
        if name == "handed":
            change = AgentChange(at=0.0, before="native", to="nobody-here", reason="person")
            one.attempt.order = replace(one.attempt.order, handed=(change,))
        ended = await asyncio.wait_for(one.run(), 60)
        assert ended.outcome == outcome and ended.why, (name, ended)
        assert ended.reason in (reason, "not_found"), (name, ended)
        await one.attempt.log.finish(1)


async def test_what_the_scheduler_sends_is_learned_and_where_work_went_is_compared_with_claims(
    bus: Bus, tmp_path: Path
) -> None:
    one = executed(bus, tmp_path, agent="native", claims=("src/**",))
    one.attempt.limits = OrderLimits(tokens=3)
    await one.learn(RunBeatAnswer(holds=True))
    assert one.attempt.limits == OrderLimits(tokens=3)
    await one.learn(RunBeatAnswer(holds=True, limits=OrderLimits(tokens=5), claims={"o2": ["b.txt"]}))
    assert one.attempt.limits == OrderLimits(tokens=5)
    one.claimed = Claimed(str(tmp_path), str(tmp_path), set)
    await one.learn(RunBeatAnswer(holds=True, claims={"o2": ["b.txt"]}))
    one.result = {"changed": ["src/a.py", "b.txt"]}
    one._compare_with_claims()
    assert one.result["outside_claims"] == ["b.txt"] and one.result["under_claims_of"] == {"o2": ["b.txt"]}
    one.result = {"changed": ["src/a.py"]}
    one._compare_with_claims()
    assert one.result == {"changed": ["src/a.py"]}
    await one.attempt.log.finish(60)
    spec = one._adjusted(SessionSpec(cwd="/"))
    assert (spec.mode, spec.answers, spec.trusted) == ("suggest", True, False) and spec.guards.calling is not None
    assert spec.answer_seconds > one.spec.answer_seconds and spec.limits.max_tokens is None
    one.before = replace(one.before, how="session", session="s1", fork=True)
    assert one._adjusted(SessionSpec(cwd="/")).start.resume == "s1" and one._adjusted(SessionSpec(cwd="/")).start.fork
    assert not spec.start.resume and one._adjusted(SessionSpec(cwd="/", mode="full-auto")).mode == "full-auto"
