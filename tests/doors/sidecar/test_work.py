"""One order carried out by an agent, without a wire."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.doors.sidecar.test_door import WRITES, order, script
from tests.drivers.test_session import replayed
from treadle.agents import find_agent
from treadle.doors.sidecar.work import AgentWork, as_uuid
from treadle.drivers.card import cards
from treadle.errors import NotFound, PolicyNotEnforceable
from treadle.events import Usage
from treadle.session import AgentInfo, Answer
from treadle.testing.sessions import ScriptedAgent
from treadle.wire.sidecar.connection import NO_POLICY
from treadle.wire.sidecar.receipts import RunCompleted, UsageTotals, normal, receipt_hash


def work(root: Path, tmp_path: Path, **options: Any) -> AgentWork:
    made = order(root)
    made = order(root, config=type(made.config)(model=script(tmp_path, WRITES), vendor={}, env={}))
    return AgentWork("run", made, find_agent("native"), AgentInfo(name="native"), **options)


async def test_its_events_end_with_completion_and_its_receipt_holds_them(tmp_path: Path) -> None:
    done = work(tmp_path, tmp_path)
    events = [event async for batch in done.events() for event in batch]
    assert isinstance(events[-1], RunCompleted) and done.session is None
    receipt = done.receipt()
    assert receipt.outcome == "complete" and receipt.trace == events
    assert receipt.receipt_sha256 == receipt_hash(normal(receipt)) and receipt.meta.run_id == as_uuid("run")


async def test_one_that_is_cancelled_before_it_began_does_nothing(tmp_path: Path) -> None:
    done = work(tmp_path, tmp_path)
    await done.cancel("not needed")
    assert [batch async for batch in done.events()] == []
    assert done.receipt().outcome == "partial" and not (tmp_path / "made.txt").exists()


async def test_nobody_can_speak_to_one_that_has_no_session(tmp_path: Path) -> None:
    done = work(tmp_path, tmp_path)
    assert await done.steer("hello") is False
    with pytest.raises(NotFound):
        await done.answer("request", Answer(decision="allow"))


async def test_an_agent_without_guards_is_refused_a_policy(tmp_path: Path) -> None:
    made = order(tmp_path, policy=replace(NO_POLICY, deny_write=["*.env"], allowed_tools=["Read"]))
    refused = AgentWork("run", made, find_agent("native"), AgentInfo(name="some"))
    with pytest.raises(PolicyNotEnforceable, match=r"allowed_tools Read; deny_write \*.env"):
        [batch async for batch in refused.events()]
    assert refused.session is None


async def test_the_receipt_of_an_outside_agent_tells_what_was_lost(tmp_path: Path) -> None:
    agent = replayed(cards()["codex"], "text")
    done = AgentWork("run", order(tmp_path), agent, AgentInfo(name="codex", losses=cards()["codex"].losses))
    async for _ in done.events():
        pass
    lost = {row["name"]: row["level"] for row in done.receipt().usage_raw["lost"]}
    assert lost["Usage.cost_usd"] == "dropped" and lost["Usage"] == "emulated" and "FileChanged" not in lost


async def test_what_was_only_estimated_is_not_in_a_receipt_as_measured(tmp_path: Path) -> None:
    agent = ScriptedAgent([Usage(model="m", input_tokens=3, output_tokens=2, source="estimate")])
    done = AgentWork("run", order(tmp_path), agent, AgentInfo(name="scripted"))
    assert [batch async for batch in done.events()]
    receipt = done.receipt()
    assert receipt.usage == UsageTotals() and receipt.usage_raw["by_model"]["m"]["estimated"] is True
