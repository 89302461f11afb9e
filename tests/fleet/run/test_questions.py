"""Questions of agents: stored, answered once, by a person, a rule or the deadline."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.engine.test_bus import restart
from tests.fleet.repositories import edits, work
from treadle.errors import Denied
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.schedule import liveness
from treadle.io.sandbox import methods


async def test_a_question_is_stored_and_answered_once_and_stands_in_the_receipt(
    fleet: places.Fleet, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    (ask,) = await client.approvals(bus)
    assert ask.command == "install /dev/null asked.txt" and ask.default == "deny"
    assert ask.headline == "May this command run?"
    if methods.available().method is not None:
        assert "writes only to its worktree" in str(ask.confined), "a path of the node means nothing to who answers"
    async with asyncio.timeout(60):  # who schedules may just be changing
        while liveness.judged(await client.why(bus, order.id)).verdict != "waiting for a person":
            await asyncio.sleep(0.02)
    restart(fleet)
    async with asyncio.timeout(60):
        while not await client.approvals(bus):
            await asyncio.sleep(0.05)
    await client.answer(bus, order.id, "allow", by="ana", number=ask.number)
    with pytest.raises(Denied, match="answered by ana"):
        await client.answer(bus, order.id, "deny", by="ben", number=ask.number)
    ended = await client.wait(bus, order.id, 90)
    receipt = await client.get_receipt(bus, order.id)
    assert ended.state == "done" and "asked.txt" in ended.result["changed"], ended.why
    assert receipt is not None and [(one["by"], one["decision"]) for one in receipt.approvals] == [("ana", "allow")]


async def test_the_deadline_and_rules_answer_where_nobody_does(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    model = edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt")
    late = work(repository, model, answer_seconds=0.5)
    ruled = work(repository, model, rules=("allow Bash(install *)",))
    await give(bus, late, ruled)
    ended = [await client.wait(bus, each.id, 90) for each in (late, ruled)]
    assert "asked.txt" not in ended[0].result["changed"] and "asked.txt" in ended[1].result["changed"]
    receipts = [await client.get_receipt(bus, each.id) for each in (late, ruled)]
    assert receipts[0] is not None and receipts[0].approvals[0]["by"] == "deadline"
    assert receipts[1] is not None and receipts[1].approvals[0]["by"] == "rule allow"
