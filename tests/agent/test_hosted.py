"""What a session of our own agent asks of its host, and allows for longer."""

import asyncio
import os
from pathlib import Path

from tests.agent.conftest import Opened
from tests.agent.opened import DELEGATE_WRITE, SAY, WRITE, of, turn
from treadle.events import (
    Asked,
    FileChanged,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    Warned,
)
from treadle.io import paths
from treadle.session import Answer, Change, Rules
from treadle.sessions.session import run_turn
from treadle.settings import config


async def test_with_nobody_to_ask_an_ask_is_a_denial_that_says_so(opened: Opened) -> None:
    session = await opened(WRITE + SAY)
    events = await turn(session)
    [denied] = of(events, ToolDenied)
    assert denied.reason == "write_file (write) requires approval in suggest mode" and denied.by == "nobody"
    assert of(events, Asked) == [] and not Path(session.spec.cwd, "made.txt").exists()
    assert events[-1].text == "done"


async def test_a_person_can_allow_once(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True)
    events = await turn(session, answer=Answer(decision="allow", by="ada"))
    asked = of(events, Asked)[0]
    assert asked.kind == "permission" and asked.name == "write_file" and asked.paths[0].endswith("made.txt")
    assert len(of(events, Asked)) == 2 and of(events, FileChanged)[0].change == "added"


async def test_allowed_for_the_session_is_not_asked_again(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True)
    events = await turn(session, answer=Answer(decision="allow", scope="session"))
    assert len(of(events, Asked)) == 1 and len(of(events, ToolEnded)) == 2


async def test_allowed_always_is_a_rule_in_the_persons_own_settings(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True)
    events = await turn(session, answer=Answer(decision="allow", scope="always"))
    assert len(of(events, Asked)) == 1 and [event.code for event in of(events, Warned)] == ["rule_kept"]
    rule = f"write_file({session.spec.cwd}/made.txt)"
    assert config.load(session.spec.cwd, {}).settings.permissions.allow == (rule,)
    later = await opened(WRITE + SAY)
    assert of(await turn(later), ToolDenied) == []


async def test_allowed_always_says_when_it_cannot_last(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True, rules=Rules(ask=("Write(*.txt)",)))
    events = await turn(session, answer=Answer(decision="allow", scope="always"))
    [warned] = of(events, Warned)
    assert warned.message == "allowed for this session only: no allow rule can make that last"
    assert len(of(events, Asked)) == 1 and not Path(paths.config_file()).exists()
    session = await opened(WRITE + SAY, answers=True)
    Path(paths.config_file()).mkdir(parents=True)
    events = await turn(session, answer=Answer(decision="allow", scope="always"))
    [warned] = of(events, Warned)
    assert warned.message.startswith("allowed for this session only: cannot read ")
    assert of(events, ToolDenied) == []


async def test_a_person_can_refuse_and_say_why(opened: Opened) -> None:
    session = await opened(WRITE + SAY, answers=True)
    events = await turn(session, answer=Answer(decision="deny", text="put it in docs/"))
    [denied] = of(events, ToolDenied)
    assert denied.reason == "put it in docs/" and denied.by == "person"


async def test_a_person_can_change_what_is_done_but_not_past_a_deny_rule(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True, rules=Rules(deny=("Write(secret*)",)))
    changed = iter(["other.txt", "secret.txt"])
    events = []
    async for event in run_turn(session, "go"):
        events.append(event)
        if isinstance(event, Asked):
            args = {"file_path": next(changed), "content": "x"}
            await session.answer(event.request, Answer(decision="allow", changed_args=args))
    assert of(events, ToolStarted)[0].args["file_path"] == "other.txt"
    assert os.listdir(session.spec.cwd) == ["other.txt"]
    assert len(of(events, ToolDenied)) == 1


async def test_what_a_person_allowed_a_subagent_for_the_session_is_allowed_for_the_session(opened: Opened) -> None:
    session = await opened(DELEGATE_WRITE + WRITE, answers=True)
    events = await turn(session, answer=Answer(decision="allow", scope="session"))
    asked = [event for event in of(events, Asked) if event.kind == "permission" and event.name == "write_file"]
    assert [event.parent for event in asked] == ["agent_1"]
    assert ("write_file", asked[0].paths[0]) in session.permissions.remembered


async def test_what_a_person_allowed_for_the_session_is_allowed_to_subagents_too(opened: Opened) -> None:
    session = await opened(WRITE + SAY + DELEGATE_WRITE, answers=True)
    await turn(session, "first", answer=Answer(decision="allow", scope="session"))
    async with asyncio.timeout(60):
        await session.tasks.run_agent("write the file", label="x", agent_type=None, background=False)
    assert len(of(session.events().ready(), Asked)) == 1


async def test_what_a_person_allowed_for_the_session_survives_a_change_of_mode(opened: Opened) -> None:
    session = await opened(WRITE + SAY + WRITE + SAY, answers=True)
    await turn(session, answer=Answer(decision="allow", scope="session"))
    await session.configure(Change(mode="plan"))
    await session.configure(Change(mode="suggest"))
    assert of(await turn(session, "again"), Asked) == []
