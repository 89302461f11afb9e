"""One order carried out by an agent, without a wire."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.doors.sidecar.test_door import WRITES, order, script
from tests.drivers.test_session import replayed
from tests.stand_ins.sessions import ScriptedAgent
from treadle.agents import find_agent
from treadle.drivers.card import cards
from treadle.errors import PolicyNotEnforceable, ProviderError
from treadle.events import AnyEvent, TextDelta, TurnEnded, Usage
from treadle.receipts.work import AgentWork, as_uuid
from treadle.session import AgentInfo, SessionSpec
from treadle.wire.sidecar.connection import NO_POLICY
from treadle.wire.sidecar.receipts import AnyAgentEvent, ErrorMet, RunCompleted, UsageTotals, normal, receipt_hash


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
    assert done.receipt().usage_raw["model_wire"]["key"] == "inside"
    lost = {row["name"]: row["level"] for row in done.receipt().usage_raw["lost"]}
    assert lost["Usage.cost_usd"] == "dropped" and lost["Usage"] == "emulated" and "FileChanged" not in lost


async def test_what_was_only_estimated_is_not_in_a_receipt_as_measured(tmp_path: Path) -> None:
    agent = ScriptedAgent([Usage(model="m", input_tokens=3, output_tokens=2, source="estimate")])
    done = AgentWork("run", order(tmp_path), agent, AgentInfo(name="scripted"))
    assert [batch async for batch in done.events()]
    receipt = done.receipt()
    assert receipt.usage == UsageTotals() and receipt.usage_raw["by_model"]["m"]["estimated"] is True


def scripted(tmp_path: Path, agent: ScriptedAgent, **options: Any) -> AgentWork:
    return AgentWork("run", order(tmp_path), agent, AgentInfo(name="scripted"), **options)


async def test_what_is_said_next_is_a_turn_of_the_same_run(tmp_path: Path) -> None:
    go = asyncio.Event()
    agent = ScriptedAgent([TextDelta(text="one"), go], [TextDelta(text="two")])
    done, events = scripted(tmp_path, agent), list[AnyAgentEvent]()
    assert await done.say_next("too early") is False
    async for batch in done.events():
        events += batch
        if not go.is_set():
            assert await done.say_next("more") is True
            go.set()
    kinds = [type(event).__name__ for event in events]
    assert kinds.count("RunCompleted") == 1 and kinds.count("RunStarted") <= 1
    assert "one" in str(events) and "two" in str(events)
    assert done.receipt().outcome == "complete" and await done.say_next("too late") is False


async def test_a_message_that_cannot_wait_ends_the_turn_that_runs(tmp_path: Path) -> None:
    agent = ScriptedAgent([TextDelta(text="one"), asyncio.Event()], [TextDelta(text="two")])
    done, said, events = scripted(tmp_path, agent), False, list[AnyAgentEvent]()
    async with asyncio.timeout(60):
        async for batch in done.events():
            events += batch
            if not said and "one" in str(batch):
                said = await done.say_next("now", now=True)
    assert "two" in str(events) and done.receipt().outcome == "complete"


async def test_a_run_that_fails_shows_its_error_once(tmp_path: Path) -> None:
    done = scripted(tmp_path, ScriptedAgent([ProviderError("down")]))
    events = [event async for batch in done.events() for event in batch]
    assert len([event for event in events if isinstance(event, ErrorMet)]) == 1 and "down" in str(events)
    assert done.receipt().outcome == "failed"


async def test_how_it_is_opened_may_be_changed_and_each_of_its_events_is_seen_first(tmp_path: Path) -> None:
    agent, seen = (
        ScriptedAgent([TextDelta(text="one"), Usage(model="m", input_tokens=3, cost_usd=0.5)]),
        list[AnyEvent](),
    )

    def adjust(spec: SessionSpec) -> SessionSpec:
        return replace(spec, model="other")

    async def sink(event: AnyEvent) -> None:
        seen.append(event)

    done = scripted(tmp_path, agent, adjust=adjust, sink=sink)
    async for _ in done.events():
        pass
    assert agent.sessions[0].spec.model == "other" and isinstance(seen[-1], TurnEnded)
    receipt = done.receipt()
    assert (receipt.usage.input_tokens, receipt.usage.estimated_cost_usd, receipt.usage.request_units) == (3, 0.5, 1)
    assert receipt.mode == "mapped" and receipt.verification.harness_ok is False
    assert receipt.usage_raw["by_model"]["m"]["estimated"] is False and receipt.meta.duration_ms >= 0
    assert as_uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c8") == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    assert as_uuid("x") == as_uuid("x") != as_uuid("y")
