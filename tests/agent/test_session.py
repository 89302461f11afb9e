"""A session of our own agent: resumed, forked, changed, interrupted, closed."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.agent.conftest import Opened
from tests.agent.opened import SAY, WRITE, of, turn
from tests.scripts import calls, reply, says
from treadle.agent.session import NativeSession
from treadle.agent.transcript import Transcript, well_formed
from treadle.errors import Busy
from treadle.events import (
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Warned,
)
from treadle.session import Prompt, Rules


async def test_a_session_is_resumed_with_its_history_and_its_spending(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first, "remember me")
    await first.close()
    again = await opened('[[reply]]\ntext = "yes"\n', resume=first.id)
    assert again.id == first.id and again.spent.total_tokens == 10
    await turn(again, "do you?")
    said = [message.text for message in Transcript.read(first.id).view()]
    assert said == ["remember me", "done", "do you?", "yes"]


@pytest.mark.parametrize("fork", [False, True])
async def test_what_was_denied_when_it_began_is_denied_when_it_goes_on(opened: Opened, fork: bool) -> None:
    first = await opened(SAY, mode="full-auto", rules=Rules(deny=("Write",)))
    await turn(first, "one")
    await first.close()
    again = await opened(WRITE + SAY, mode="full-auto", resume=first.id, fork=fork, rules=Rules(deny=("WebFetch",)))
    events = await turn(again, "two")
    [denied] = of(events, ToolDenied)
    assert "the rule Write" in denied.reason and os.listdir(again.spec.cwd) == []
    assert [*again.spec.rules.deny] == ["Write", "WebFetch"]


async def test_an_open_session_is_not_opened_twice(opened: Opened) -> None:
    first = await opened(SAY)
    with pytest.raises(Busy):
        await opened(SAY, resume=first.id)


async def test_rewind_undoes_the_files_of_a_turn(opened: Opened) -> None:
    session = await opened(SAY + WRITE + SAY, mode="auto-edit")
    await turn(session, "first")
    events = await turn(session, "second")
    made = Path(session.spec.cwd, "made.txt")
    assert made.exists()
    await session.rewind(events[0].turn)
    assert not made.exists() and [message.text for message in session.context.messages] == ["first", "done"]


BUSY = (
    reply(
        when="^go$",
        text="I look at it first.",
        piece=3,
        call=[
            {"name": "read_file", "arguments": {"file_path": "a.txt"}},
            {"name": "grep", "arguments": {"pattern": "x"}},
            {"name": "write_file", "arguments": {"file_path": "new.txt", "content": "hello"}},
            {"name": "bash", "arguments": {"command": "(setsid sleep 1000 &) ; echo one; sleep 0.05"}},
            {"name": "bash", "arguments": {"command": "sleep 1000", "background": True}},
            {"name": "task", "arguments": {"description": "d", "prompt": "child work"}},
        ],
    )
    + calls("bash", {"command": "sleep 0.05; echo two"}, when="child work", system="for another agent")
    + says("child is done", system="for another agent", times="always")
    + says("fine", when="^again$", times="always")
    + says("done with all of it now", times="always", piece=2, pace=0.002)
)


@pytest.mark.parametrize("moment", [0, 3, 17, 60, 0.02, 0.08, 0.15, 0.25, 0.35])
async def test_interrupted_at_any_moment_a_turn_ends_once_and_the_session_goes_on(
    opened: Opened, mark: str, moment: float
) -> None:
    """After so many steps of the loop, or so many seconds."""
    session = await opened(BUSY, mode=None, env={"HOSTILE_MARK": mark, "PATH": os.environ["PATH"]})
    Path(session.spec.cwd, "a.txt").write_text("x\n")
    reader = session.events()
    first = await session.prompt(Prompt(text="go"))
    if isinstance(moment, int):
        for _ in range(moment):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(moment)
    await asyncio.gather(session.interrupt(first, "enough"), session.interrupt(first, "enough"))
    second = await session.prompt(Prompt(text="again"))
    events = []
    async with asyncio.timeout(60):
        async for event in reader:
            events.append(event)
            if isinstance(event, TurnEnded) and event.turn == second:
                break
    assert [ended.turn for ended in of(events, TurnEnded)] == [first, second] and events[-1].text == "fine"
    assert {event.call for event in of(events, ToolStarted)} == {event.call for event in of(events, ToolEnded)}
    assert session.context.messages == well_formed(session.context.messages)
    assert Transcript.read(session.id).view() == session.context.messages
    await session.close()


async def test_a_history_with_lines_that_cannot_be_read_is_resumed_and_says_so(opened: Opened) -> None:
    session = await opened(SAY)
    await turn(session)
    await session.close()
    with Path(session.transcript.directory, "history.jsonl").open("ab") as history:
        history.write(b'{"type":"from_the_future"}\n{"type":"message","mess')
    again = await opened(SAY, resume=session.id)
    reader = again.events()
    [warned] = of(reader.ready(), Warned)
    reader.close()
    assert warned.code == "history" and warned.message.startswith("2 lines")
    assert (await turn(again))[-1].text == "done"
    assert len(Transcript.read(again.id).view()) == 4


def warned(session: NativeSession) -> list[str]:
    return [event.message for event in session.events(after=0, observer=True).ready() if isinstance(event, Warned)]


async def test_a_hook_keeps_a_prompt_from_the_model(opened: Opened, work: Path) -> None:
    asked = "grep -q secret && { echo no >&2; exit 2; }; echo remember"
    (work / ".claude").mkdir()
    entries = {"UserPromptSubmit": [{"hooks": [{"command": asked}]}]}
    (work / ".claude" / "settings.json").write_text(json.dumps({"hooks": entries}))
    session = await opened(SAY, trusted=True)
    ended = (await turn(session, "the secret"))[-1]
    assert isinstance(ended, TurnEnded) and ended.text == "a hook blocked the prompt: no"
    await turn(session, "go")
    assert [message.text.strip() for message in session.context.messages] == ["remember", "go", "done"]
