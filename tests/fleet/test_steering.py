"""Steering: what waits says why, questions are answered once, budgets and claims hold, people change their minds."""

import asyncio
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import SLOW, edits, git, work
from tests.fleet.test_bus import restart
from treadle.errors import ConfigError, Denied, LocalError, WorkspaceError
from treadle.fleet import client, liveness, places, results
from treadle.fleet.bus import Bus
from treadle.fleet.orders import OrderLimits
from treadle.io.sandbox import methods


async def waits_for(bus: Bus, name: str, kind: str) -> dict[str, object]:
    async with asyncio.timeout(60):
        while (found := (await client.why(bus, name)).get("waits") or {}).get("kind") != kind:
            await asyncio.sleep(0.02)
    return dict(found)


async def test_what_comes_after_another_waits_for_it(bus: Bus, start_node: Start) -> None:
    await start_node()
    first = spec("null:0.5:2")
    second, third = spec(after=(first.id,)), spec(after=(first.id, "nobody"))
    await give(bus, second, third, first)
    assert (await client.wait(bus, second.id, 60)).state == "done"
    orders = [await client.get_order(bus, each.id) for each in (first, second)]
    assert orders[0].attempts[0].ended <= orders[1].attempts[0].placed
    assert "nobody knows" in str((await waits_for(bus, third.id, "dependency"))["text"])


async def test_a_failed_one_blocks_or_skips_or_is_passed_and_its_retry_counts(bus: Bus, start_node: Start) -> None:
    await start_node()
    parent = spec("null:60:60", limits=OrderLimits(seconds=0.2))
    blocked, skipped = spec(after=(parent.id,)), spec(after=(parent.id,), if_failed="skip")
    passed = spec(after=(parent.id,), if_failed="run")
    await give(bus, parent, blocked, skipped, passed)
    assert (await client.wait(bus, parent.id, 60)).state == "failed"
    assert (await client.wait(bus, skipped.id, 60)).state == "skipped"
    assert (await client.wait(bus, passed.id, 60)).state == "done"
    assert (await waits_for(bus, blocked.id, "dependency"))["holder"] == parent.id
    again = await client.retry(bus, parent.id)
    assert again.new and (await client.retry(bus, parent.id)).id == again.id
    async with asyncio.timeout(60):
        while (await client.get_order(bus, blocked.id)).after != (again.id,):
            await asyncio.sleep(0.02)
    assert (await client.get_order(bus, parent.id)).retried_as == again.id


async def test_urgent_orders_go_first_and_a_priority_can_be_changed(bus: Bus, start_node: Start) -> None:
    await start_node(slots=1)
    (busy,) = await give(bus, spec(SLOW))
    await until_state(bus, busy, "placed", "running")
    low, high, middle = spec(priority=1), spec(priority=9), spec(priority=3)
    await give(bus, low, high, middle)
    assert (await waits_for(bus, low.id, "slot"))["kind"] == "slot"
    await client.set_fields(bus, low.id, priority=8, why="it is late", by="ana")
    async with asyncio.timeout(60):
        while (await client.get_order(bus, low.id)).priority != 8:
            await asyncio.sleep(0.02)
    await client.cancel(bus, busy)
    ended = [await client.wait(bus, each.id, 60) for each in (high, low, middle)]
    placed = [order.attempts[0].placed for order in ended]
    assert placed == sorted(placed)
    assert "priority 1 -> 8 (it is late)" in ended[1].notes[0].what and ended[1].notes[0].by == "ana"
    with pytest.raises(ConfigError):
        await client.set_fields(bus, low.id, priority=12)


async def test_a_pause_holds_what_waits_and_says_by_whom(bus: Bus, start_node: Start) -> None:
    await start_node()
    await client.pause(bus, "agent:null", why="release day", by="ana")
    async with asyncio.timeout(60):
        while not (await client.control(bus)).pauses:
            await asyncio.sleep(0.02)
    (name,) = await give(bus, spec())
    assert (await waits_for(bus, name, "paused"))["holder"] == "ana"
    await client.resume(bus, "agent:null")
    assert (await client.wait(bus, name, 60)).state == "done"
    with pytest.raises(ConfigError, match="no scope"):
        await client.pause(bus, "everything")


async def test_labels_agents_and_drained_nodes_are_told_as_reasons(bus: Bus, start_node: Start) -> None:
    await start_node("n1", labels=("gpu",), agents=("null",))
    wrong_label, wrong_agent = await give(bus, spec(labels=("arm",)), spec("native"))
    assert "has no label arm" in str((await waits_for(bus, wrong_label, "label"))["text"])
    assert "has no agent" in str((await waits_for(bus, wrong_agent, "agent"))["text"])
    await client.drain(bus, "n1", by="ana")
    (name,) = await give(bus, spec(labels=("gpu",)))
    assert "drained by ana" in str((await waits_for(bus, name, "node"))["text"])
    assert "drained" in (await client.nodes(bus))[0]["says"]
    await client.drain(bus, "n1", undo=True)
    assert (await client.wait(bus, name, 60)).state == "done"


async def test_a_repeated_order_comes_again_and_never_twice_at_once(bus: Bus, start_node: Start) -> None:
    await start_node()
    first = spec(every=0.3)
    await give(bus, first)
    async with asyncio.timeout(60):
        while len(done := await client.list_orders(bus, states=["done"])) < 3:
            await asyncio.sleep(0.05)
    spans = sorted((order.attempts[0].placed, order.attempts[0].ended) for order, _ in done)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    assert all(after[0] - before[0] >= 0.29 for before, after in zip(spans, spans[1:], strict=False))


async def test_a_budget_that_is_used_up_makes_orders_wait_until_it_is_raised(bus: Bus, start_node: Start) -> None:
    await start_node(slots=4)
    await client.set_budget(bus, "project:p", usd=None, tokens=1000)
    async with asyncio.timeout(60):
        while not (await client.control(bus)).budgets:
            await asyncio.sleep(0.02)
    (first,) = await give(bus, spec(SLOW, project="p", limits=OrderLimits(tokens=800)))
    await until_state(bus, first, "placed", "running")
    second, unlimited, other = await give(
        bus, spec(project="p", limits=OrderLimits(tokens=300)), spec(project="p"), spec(project="q")
    )
    assert "0 tokens spent and 800 reserved of 1000" in str((await waits_for(bus, second, "budget"))["text"])
    assert "needs a limit" in str((await waits_for(bus, unlimited, "budget"))["text"])
    assert (await client.wait(bus, other, 60)).state == "done"
    await client.set_budget(bus, "project:p", usd=None, tokens=2000)
    assert (await client.wait(bus, second, 60)).state == "done"


async def test_at_most_so_many_at_once_across_the_fleet(bus: Bus, start_node: Start) -> None:
    await start_node(slots=4)
    await client.set_limit(bus, "agent:null:60:600", 1)
    async with asyncio.timeout(60):
        while not (await client.control(bus)).limits:
            await asyncio.sleep(0.02)
    first, second = await give(bus, spec(SLOW), spec(SLOW))
    assert "1 at once" in str((await waits_for(bus, second, "limit"))["text"])


async def test_a_message_can_be_changed_until_it_is_delivered(bus: Bus, start_node: Start) -> None:
    await start_node(slots=0)
    (name,) = await give(bus, spec())
    key = await client.say(bus, name, "use tabs", by="ana")
    await client.edit_message(bus, key, "use spaces")
    ((_, message),) = await client.messages(bus, name)
    assert message["text"] == "use spaces" and message["state"] == "queued"
    await bus.put(f"say.{key}", msgspec.json.encode({**message, "state": "delivered"}))
    with pytest.raises(LocalError, match="delivered already"):
        await client.edit_message(bus, key, "too late")


# With the native agent and a scripted model


async def test_work_comes_back_as_a_branch_and_a_patch_and_is_merged_in_order(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    setup = f"test -e .env && touch made; touch {tmp_path}/outside; test -e made"
    first = work(repository, edits(tmp_path, "x", "a.txt", "two"), bring=(".env",), setup=setup)
    clash = work(repository, edits(tmp_path, "y", "a.txt", "three"))
    other = work(repository, edits(tmp_path, "z", "b.txt", "two"), verify="test $(cat b.txt) = two")
    await give(bus, first, clash, other)
    ended = [await client.wait(bus, each.id, 90) for each in (first, clash, other)]
    assert [order.state for order in ended] == ["done"] * 3, [order.why for order in ended]
    assert ended[0].used.calls == 2 and ended[0].used.input_tokens >= 100 and ended[0].used.usd is None
    assert ended[2].result["verified"] is True
    assert ended[0].result["changed"] == ["a.txt", "made"]
    assert (tmp_path / "outside").exists() == (methods.available().method is None), "the setup is confined as well"
    assert b"+two" in await results.diff(bus, first.id)
    async with asyncio.timeout(60):
        while f"treadle/{other.id}" not in git(repository, "branch", "--list", "treadle/*"):
            await asyncio.sleep(0.05)
    steps = await results.merge(bus, [first.id, other.id, clash.id], str(repository), verify="test -e a.txt")
    assert [step.merged for step in steps] == [True, True, False] and steps[2].conflicts == ("a.txt",)
    assert (repository / "a.txt").read_text() == "two" and git(repository, "status", "--porcelain") == ""
    (repository / "a.txt").write_text("dirty\n")
    with pytest.raises(WorkspaceError, match="not committed"):
        await results.merge(bus, [clash.id], str(repository))
    await results.discard(bus, clash.id)
    assert f"treadle/{clash.id}" not in git(repository, "branch", "--list", "treadle/*")
    worktrees = git(repository, "worktree", "list").splitlines()
    async with asyncio.timeout(60):
        while len(worktrees) > 1:
            await asyncio.sleep(0.05)
            worktrees = git(repository, "worktree", "list").splitlines()


async def test_a_question_is_stored_and_answered_once_and_stands_in_the_receipt(
    fleet: places.Fleet, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "touch asked.txt"))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    (ask,) = await client.approvals(bus)
    assert ask["command"] == "touch asked.txt" and ask["default"] == "deny"
    assert liveness.judged(await client.why(bus, order.id))["verdict"] == "waiting for a person"
    restart(fleet)
    async with asyncio.timeout(60):
        while not await client.approvals(bus):
            await asyncio.sleep(0.05)
    await client.answer(bus, order.id, "allow", by="ana", number=ask["number"])
    with pytest.raises(Denied, match="answered by ana"):
        await client.answer(bus, order.id, "deny", by="ben", number=ask["number"])
    ended = await client.wait(bus, order.id, 90)
    receipt = await client.get_receipt(bus, order.id)
    assert ended.state == "done" and "asked.txt" in ended.result["changed"], ended.why
    assert receipt is not None and [(one["by"], one["decision"]) for one in receipt.approvals] == [("ana", "allow")]


async def test_the_deadline_and_rules_answer_where_nobody_does(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    model = edits(tmp_path, "x", "a.txt", "two", "touch asked.txt")
    late = work(repository, model, answer_seconds=0.5)
    ruled = work(repository, model, rules=("allow Bash(touch *)",))
    await give(bus, late, ruled)
    ended = [await client.wait(bus, each.id, 90) for each in (late, ruled)]
    assert "asked.txt" not in ended[0].result["changed"] and "asked.txt" in ended[1].result["changed"]
    receipts = [await client.get_receipt(bus, each.id) for each in (late, ruled)]
    assert receipts[0] is not None and receipts[0].approvals[0]["by"] == "deadline"
    assert receipts[1] is not None and receipts[1].approvals[0]["by"] == "rule allow"


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


async def test_a_repository_travels_to_a_node_that_has_no_copy(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    from treadle.fleet import bundles

    await start_node()
    order = await bundles.send(bus, work(repository, edits(tmp_path, "x", "a.txt", "two")))
    order = msgspec.structs.replace(order, root="/nowhere/of/that/name")
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done", ended.why
    assert subprocess.run(["git", "cat-file", "-e", ended.result["commit"]], cwd=repository).returncode
    steps = await results.merge(bus, [order.id], str(repository))
    assert steps[0].merged and (repository / "a.txt").read_text() == "two"
    assert os.path.isdir(repository)
