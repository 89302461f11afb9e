import asyncio
from typing import Any

import pytest

from treadle.errors import ProviderError
from treadle.events import Asked, Event, Failed, Message, TextDelta, TurnEnded
from treadle.session import Answer, Prompt, SessionSpec
from treadle.sessions.session import Turn, run_turn
from treadle.testing.sessions import ScriptedAgent, ScriptedSession


async def played(agent: ScriptedAgent, text: str = "hi", **spec: Any) -> list[Event]:
    session = await agent.open(SessionSpec.of(cwd=".", **spec))
    return [event async for event in run_turn(session, text)]


async def test_turns_are_played_in_order_and_then_echo() -> None:
    agent = ScriptedAgent([TextDelta(text="one")], [Message(text="two")])
    endings = [(await played(agent))[-1] for _ in range(3)]
    assert [event.text for event in endings if isinstance(event, TurnEnded)] == ["one", "two", "hi"]


async def test_an_exception_is_how_the_turn_ends() -> None:
    events = await played(ScriptedAgent([ProviderError("down")]))
    assert isinstance(events[-2], Failed) and isinstance(events[-1], TurnEnded) and events[-1].outcome == "failed"


async def test_a_step_can_wait_ask_and_do_anything() -> None:
    gate, seen = asyncio.Event(), []

    async def step(session: ScriptedSession, turn: Turn) -> None:
        seen.append((session.id, turn.prompt.text))

    agent = ScriptedAgent([gate, Asked(request="q", kind="question", text="?"), step])
    session = await agent.open(SessionSpec.of(cwd=".", answers=True))
    reader = session.events()
    await session.prompt(Prompt(text="go"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not [event for event in reader.ready() if isinstance(event, Asked)], "it waits before it asks"
    gate.set()
    async for event in reader:
        if isinstance(event, Asked):
            for _ in range(20):
                await asyncio.sleep(0)
            assert not seen, "it waits for the answer"
            seen.append((event.request, event.text))
            await session.answer("q", Answer(decision="allow"))
        if isinstance(event, TurnEnded):
            break
    assert seen == [("q", "?"), (session.id, "go")]


async def test_a_session_can_all_but_what_is_named_and_is_seen_by_its_agent() -> None:
    agent = ScriptedAgent([TextDelta(text="x")], cannot=("steer",))
    session = await agent.open(SessionSpec.of(cwd=".", tools=("bash",), session_id="s1"))
    assert (session.id, session.info.tools, session.spec.cwd) == ("s1", ("bash",), ".")
    able = session.info.capabilities
    assert able["steer"] == "unsupported" and {level for name, level in able.items() if name != "steer"} == {"native"}
    assert (await agent.probe()).name == agent.name == session.info.name and agent.sessions == [session]
    assert not session.closed
    await session.close()
    assert session.closed
    assert (await agent.open(SessionSpec(cwd="."))).id != "s1"


async def test_a_step_can_be_played_again_and_what_was_steered_is_kept() -> None:
    said = TextDelta(text="again")

    async def steers(session: ScriptedSession, turn: Turn) -> None:
        assert await session.steer(turn.id, "left")

    agent = ScriptedAgent([said, said, steers, ProviderError("down")])
    session = await agent.open(SessionSpec(cwd="."))
    events = [event async for event in run_turn(session, "go")]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["again", "again"] and said.seq == 0
    assert isinstance(events[-1], TurnEnded) and events[-1].iterations == 1 and session.steered == ["left"]
    completed = (await played(ScriptedAgent([Message(text="m")])))[-1]
    assert isinstance(completed, TurnEnded) and (completed.stop_reason, completed.iterations) == ("stop", 1)


async def test_an_agent_can_refuse_to_open() -> None:
    with pytest.raises(ProviderError):
        await ScriptedAgent(refuses=ProviderError("no")).open(SessionSpec(cwd="."))
