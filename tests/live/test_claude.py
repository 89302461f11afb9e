"""What only Claude Code does, with the real program: background tasks, questions, plans, another model and mode."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.claude.test_gate import saying
from tests.drivers.claude.test_session import follow
from tests.drivers.scenarios import DONE, PATIENCE, USED
from tests.live.agents import agent, recording
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.events import Asked, TaskChanged, TextDelta, ToolDenied, ToolEnded, TurnEnded, TurnStarted
from treadle.session import Answer, Change, HookVerdict, OwnProgram, OwnTool, Prompt, Session, SessionSpec
from treadle.testing.server import ModelServer

QUESTION = {"question": "Which colour?", "header": "Colour", "multiSelect": False}
QUESTION |= {"options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}]}

WEIGHED = {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]}


def replies(name: str, arguments: dict[str, Any]) -> Script:
    call = CallLine(name=name, arguments=arguments, id="call_1")
    first = ScriptedReply(when="begin", text="Let me see.", call=(call,), usage=USED)
    return Script(reply=(first, ScriptedReply(text=DONE, usage=USED, times="always")))


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


async def test_a_background_task_wakes_it_for_a_turn_of_its_own(home: Path, tmp_path: Path) -> None:
    given = {"command": "python3 -c 'import time; time.sleep(1)'", "run_in_background": True, "description": "Wait"}
    async with ModelServer(replies("Bash", given)) as server:
        made = agent("claude", home, server.url, recording("claude", "background"), tmp_path)
        session = await made.open(SessionSpec.of(cwd=str(tmp_path), mode="full-auto"))
        events = await follow(session, turns=2)
    assert [event.source for event in events if isinstance(event, TurnStarted)] == ["user", "task"]
    assert [event.text for event in events if isinstance(event, TurnEnded)] == [DONE, DONE]
    assert [event.change for event in events if isinstance(event, TaskChanged)] == ["started", "completed"]


async def test_its_question_goes_to_the_person_and_the_answer_to_the_model(home: Path, tmp_path: Path) -> None:
    async with ModelServer(replies("AskUserQuestion", {"questions": [QUESTION]})) as server:
        made = agent("claude", home, server.url, recording("claude", "question"), tmp_path)
        session = await made.open(SessionSpec.of(cwd=str(tmp_path), answers=True))
        events = await follow(session, Answer(decision="allow", text="Blue"))
    (asked,) = [event for event in events if isinstance(event, Asked)]
    assert (asked.kind, asked.text, asked.options) == ("question", "Which colour?", ("Red", "Blue"))
    assert "Blue" in json.dumps(server.asked[-1].body["messages"][-1])


async def test_an_answer_may_change_what_runs(home: Path, tmp_path: Path) -> None:
    async with ModelServer(replies("Bash", {"command": "touch asked.txt", "description": "d"})) as server:
        made = agent("claude", home, server.url, recording("claude", "changed"), tmp_path)
        session = await made.open(SessionSpec.of(cwd=str(tmp_path), answers=True, mode="suggest"))
        changed = {"command": "touch changed.txt", "description": "d"}
        await follow(session, Answer(decision="allow", changed_args=changed))
    assert [path.name for path in tmp_path.glob("*.txt")] == ["changed.txt"]


async def test_the_model_and_the_mode_change_during_a_session(home: Path, tmp_path: Path) -> None:
    async with ModelServer(replies("Bash", {"command": "touch asked.txt", "description": "d"})) as server:
        made = agent("claude", home, server.url, recording("claude", "configured"), tmp_path)
        session = await made.open(SessionSpec.of(cwd=str(tmp_path), mode="full-auto"))
        await session.configure(Change(model="sonnet", mode="plan"))
        await follow(session)
    assert "sonnet" in server.asked[-1].body["model"]
    assert not (tmp_path / "asked.txt").exists(), "in plan mode nothing runs"


async def test_what_is_added_too_late_for_a_step_makes_the_turn_go_on(home: Path, tmp_path: Path) -> None:
    slow = ScriptedReply(when="begin", text="one two three four", pace=0.3, usage=USED)
    replied = Script(reply=(slow, ScriptedReply(text=DONE, usage=USED, times="always")))
    async with ModelServer(replied, batch=False) as server:
        made = agent("claude", home, server.url, recording("claude", "steered"), tmp_path)
        session = await made.open(SessionSpec.of(cwd=str(tmp_path)))
        events = await steered(session)
        await session.close()
    assert [event.text for event in events if isinstance(event, TurnEnded)] == [DONE]


async def test_hooks_of_the_program_change_a_call_add_to_its_result_and_see_the_end(home: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    program = saying(HookVerdict(decision="allow", args={"command": "touch hooked.txt", "description": "d"}), seen)
    async with ModelServer(replies("Bash", {"command": "touch asked.txt", "description": "d"})) as server:
        made = agent("claude", home, server.url, recording("claude", "hooked"), tmp_path)
        session = await made.open(SessionSpec(cwd=str(tmp_path), mode="suggest", program=program))
        await follow(session)
    assert [path.name for path in tmp_path.glob("*.txt")] == ["hooked.txt"]
    assert "noted by the program" in json.dumps(server.asked[-1].body)
    assert seen == ["before Bash touch asked.txt", "after Bash True", "stop completed All is done."]


async def test_a_hook_of_the_program_forbids_what_the_rules_allow(home: Path, tmp_path: Path) -> None:
    program = saying("not on a Sunday", [])
    async with ModelServer(replies("Bash", {"command": "touch asked.txt", "description": "d"})) as server:
        made = agent("claude", home, server.url, recording("claude", "forbidden"), tmp_path)
        session = await made.open(SessionSpec(cwd=str(tmp_path), mode="full-auto", program=program))
        events = await follow(session)
    assert [(event.by, event.reason) for event in events if isinstance(event, ToolDenied)] == [
        ("hook", "not on a Sunday")
    ]
    assert not (tmp_path / "asked.txt").exists() and "not on a Sunday" in json.dumps(server.asked[-1].body)


async def test_a_tool_of_the_program_is_offered_and_called(home: Path, tmp_path: Path) -> None:
    async def weigh(args: dict[str, Any]) -> str:
        return f"{args['thing']} weighs 17 grams"

    tool = OwnTool(name="weigh", description="Weighs a thing.", parameters=WEIGHED, call=weigh, kind="read")
    async with ModelServer(replies("mcp__treadle__weigh", {"thing": "the pen"})) as server:
        made = agent("claude", home, server.url, recording("claude", "own-tool"), tmp_path)
        session = await made.open(SessionSpec(cwd=str(tmp_path), mode="full-auto", program=OwnProgram(tools=(tool,))))
        events = await follow(session)
    assert [event.ok for event in events if isinstance(event, ToolEnded)] == [True]
    assert "the pen weighs 17 grams" in json.dumps(server.asked[-1].body)


async def steered(session: Session) -> list[Any]:
    events: list[Any] = []
    reader = session.events()
    turn = await session.prompt(Prompt(text="begin"))
    async with asyncio.timeout(PATIENCE):
        async for event in reader:
            events.append(event)
            if isinstance(event, TextDelta) and sum(isinstance(each, TextDelta) for each in events) == 1:
                assert await session.steer(turn, "and more")
            if isinstance(event, TurnEnded):
                break
    return events
