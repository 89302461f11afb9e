"""What only Claude Code does, from recordings of the real program (tests/live/test_claude.py makes them)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import DONE, PATIENCE
from tests.drivers.test_session import replayed
from treadle.drivers.card import cards
from treadle.errors import ConfigError
from treadle.events import Asked, TaskChanged, TextDelta, ToolStarted, TurnEnded, TurnStarted
from treadle.session import Answer, Change, Prompt, Session, SessionSpec

CLAUDE = cards()["claude"]


async def opened(recording: str, cwd: Path, **more: Any) -> Session:
    return await replayed(CLAUDE, recording).open(SessionSpec.of(cwd=str(cwd), **more))


async def follow(session: Session, answer: Answer | None = None, turns: int = 1) -> list[Any]:
    events: list[Any] = []
    reader = session.events()
    await session.prompt(Prompt(text="begin"))
    async with asyncio.timeout(PATIENCE):
        async for event in reader:
            events.append(event)
            if isinstance(event, Asked) and answer is not None:
                await session.answer(event.request, answer)
            turns -= isinstance(event, TurnEnded)
            if not turns:
                break
        await session.close()
    return events


async def test_a_background_task_wakes_it_for_a_turn_of_its_own(tmp_path: Path) -> None:
    events = await follow(await opened("background", tmp_path), turns=2)
    assert [event.source for event in events if isinstance(event, TurnStarted)] == ["user", "task"]
    assert [event.text for event in events if isinstance(event, TurnEnded)] == [DONE, DONE]
    assert [event.change for event in events if isinstance(event, TaskChanged)] == ["started", "completed"]


async def test_its_question_goes_to_the_person(tmp_path: Path) -> None:
    session = await opened("question", tmp_path, answers=True)
    events = await follow(session, Answer(decision="allow", text="Blue"))
    (asked,) = [event for event in events if isinstance(event, Asked)]
    assert (asked.kind, asked.text, asked.options) == ("question", "Which colour?", ("Red", "Blue"))


async def test_an_answer_may_change_what_runs(tmp_path: Path) -> None:
    session = await opened("changed", tmp_path, answers=True, mode="suggest")
    events = await follow(session, Answer(decision="allow", changed_args={"command": "touch changed.txt"}))
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    assert started.command == "touch changed.txt"


async def test_the_model_and_the_mode_change_during_a_session(tmp_path: Path) -> None:
    session = await opened("configured", tmp_path, mode="full-auto")
    await session.configure(Change(model="sonnet", mode="plan"))
    assert session.info.mode == "plan"
    events = await follow(session)
    assert not [event for event in events if isinstance(event, ToolStarted)], "in plan mode nothing runs"


async def test_what_is_added_too_late_for_a_step_makes_the_turn_go_on(tmp_path: Path) -> None:
    session = await opened("steered", tmp_path)
    reader = session.events()
    turn = await session.prompt(Prompt(text="begin"))
    ends, said = [], 0
    async with asyncio.timeout(PATIENCE):
        async for event in reader:
            said += isinstance(event, TextDelta)
            if isinstance(event, TextDelta) and said == 1:
                assert await session.steer(turn, "and more")
            if isinstance(event, TurnEnded):
                ends.append(event.text)
                break
        await session.close()
    assert ends == [DONE]


async def test_its_slash_commands_are_listed_and_run_as_turns(tmp_path: Path) -> None:
    session = await opened("text", tmp_path)
    name = session.commands()[0].name
    assert await session.command("no-such-command", "") is None
    ran = await session.command(name, "x")
    assert ran is not None and ran.turn is not None
    async with asyncio.timeout(PATIENCE):
        async for event in session.events():
            if isinstance(event, TurnStarted):
                assert event.prompt == f"/{name} x"
            if isinstance(event, TurnEnded):
                break
        await session.close()


async def test_the_id_of_a_new_session_is_a_uuid(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="UUID"):
        await opened("text", tmp_path, session_id="mine")
