"""The native agent as a session: permissions, plans, resume, fork, rewind, subagents, interruption."""

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import Opened
from tests.scripts import calls, reply, says
from tests.waiting import until
from treadle.agent.budget import TurnBudget
from treadle.agent.context import estimate
from treadle.agent.messages import UserMessage
from treadle.agent.native import NativeAgent
from treadle.agent.subagents import AGENT_TYPES
from treadle.agent.tools.base import AnyArgs
from treadle.agent.transcript import Transcript, well_formed
from treadle.errors import Busy, ConfigError, LocalError, NotFound
from treadle.events import (
    AnyEvent,
    Asked,
    Closed,
    ContextCompacted,
    ContextPruned,
    FileChanged,
    TaskChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.io import paths
from treadle.session import Access, Agent, Answer, Change, Limits, OwnTool, Prompt, Rules, Session, SessionSpec
from treadle.sessions.session import Turn, run_turn
from treadle.settings import config

WRITE = calls("write_file", {"file_path": "made.txt", "content": "hello"})
SAY = '[[reply]]\ntext = "done"\nusage = { input = 7, output = 3 }\n'


async def turn(session: Session, text: str = "go", answer: Answer | None = None) -> list[AnyEvent]:
    events = []
    async for event in run_turn(session, text):
        events.append(event)
        if isinstance(event, Asked) and answer is not None:
            await session.answer(event.request, answer)
    return events


def of(events: list[AnyEvent], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_it_is_an_agent_that_says_what_it_can() -> None:
    agent = NativeAgent({})
    assert isinstance(agent, Agent)
    info = await agent.probe()
    assert info.name == "native" and "read_file" in info.tools and info.capabilities["resume"] == "native"


async def test_no_model_is_one_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        await NativeAgent({}).open(SessionSpec(cwd=str(tmp_path)))
    assert not (tmp_path / "sessions").exists()


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


async def test_no_mode_runs_what_no_rule_forbids(opened: Opened) -> None:
    session = await opened(WRITE + SAY, mode=None)
    assert len(of(await turn(session), FileChanged)) == 1


async def test_paths_outside_the_working_directory_need_permission_also_behind_links(
    opened: Opened, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    script = "".join(
        f'[[reply]]\n[[reply.call]]\nname = "write_file"\narguments = {{ file_path = "{path}", content = "x" }}\n'
        for path in ("../outside/a", "link/b", str(tmp_path / "outside" / "c"))
    )
    session = await opened(script + SAY, mode="auto-edit")
    events = await turn(session)
    assert len(of(events, ToolDenied)) == 3 and os.listdir(tmp_path / "outside") == []


async def test_plan_mode_changes_nothing_and_ends_in_a_plan_to_approve(opened: Opened) -> None:
    session = await opened(WRITE + '[[reply]]\ntext = "1. write made.txt"\n', mode="plan")
    events = await turn(session)
    [plan] = of(events, Asked)
    assert plan.kind == "plan" and plan.text == "1. write made.txt"
    assert of(events, ToolDenied)[0].reason == "write_file (write) is not allowed in plan mode"


async def test_an_approved_plan_is_carried_out_in_the_same_turn(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "1. write made.txt"\n' + WRITE + SAY, mode="plan", answers=True)
    events = await turn(session, answer=Answer(decision="allow"))
    assert Path(session.spec.cwd, "made.txt").read_text() == "hello"
    assert len(of(events, TurnEnded)) == 1 and events[-1].text == "done"


async def test_words_for_a_turn_that_has_no_step_left_are_refused(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "1. write made.txt"\n' + SAY, mode="plan", answers=True)
    heard = []
    async for event in run_turn(session, "go"):
        if isinstance(event, TurnStarted):
            heard.append(await session.steer(event.turn, "early"))
        if isinstance(event, Asked):
            heard.append(await session.steer(event.turn, "while the plan is read"))
            await session.answer(event.request, Answer(decision="deny"))
    assert heard == [True, False]
    assert [message.text for message in session.context.messages if isinstance(message, UserMessage)] == ["go", "early"]


async def test_a_session_is_resumed_with_its_history_and_its_spending(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first, "remember me")
    await first.close()
    again = await opened('[[reply]]\ntext = "yes"\n', resume=first.id)
    assert again.id == first.id and again.spent.total_tokens == 10
    await turn(again, "do you?")
    said = [message.text for message in Transcript.read(first.id).view()]
    assert said == ["remember me", "done", "do you?", "yes"]


async def test_a_fork_goes_its_own_way(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first, "one")
    fork = await opened(SAY, resume=first.id, fork=True)
    assert fork.id != first.id
    await turn(fork, "two")
    assert len(Transcript.read(first.id).view()) == 2 and len(Transcript.read(fork.id).view()) == 4


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


async def test_resuming_what_is_not_there_says_so(opened: Opened) -> None:
    with pytest.raises(NotFound, match="treadle sessions"):
        await opened(SAY, resume="nothing")


async def test_rewind_undoes_the_files_of_a_turn(opened: Opened) -> None:
    session = await opened(SAY + WRITE + SAY, mode="auto-edit")
    await turn(session, "first")
    events = await turn(session, "second")
    made = Path(session.spec.cwd, "made.txt")
    assert made.exists()
    session.rewind(events[0].turn)
    assert not made.exists() and [message.text for message in session.context.messages] == ["first", "done"]


async def test_limits_end_a_turn_with_their_own_outcome(opened: Opened) -> None:
    session = await opened(WRITE * 5, mode="auto-edit", limits=Limits(max_iterations=1))
    ended = (await turn(session))[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "limited"
    assert ended.error and ended.error.code == "max_iterations" and ended.iterations == 1


async def test_model_and_mode_can_be_changed_between_turns(opened: Opened, tmp_path: Path) -> None:
    session = await opened(WRITE + SAY)
    other = tmp_path / "other.toml"
    other.write_text(WRITE + '[[reply]]\ntext = "from another model"\n')
    await turn(session)
    await session.configure(Change(model=f"scripted:{other}", mode="auto-edit"))
    events = await turn(session)
    assert events[-1].text == "from another model" and len(of(events, FileChanged)) == 1


SUBAGENT = (
    calls("task", {"description": "count", "prompt": "count the files"}, when="^go$", text="I will delegate.")
    + says("there are three", when="count the files", system="for another agent", usage={"input": 5, "output": 2})
    + says("three, says my helper", when="there are three")
)


async def test_a_subagent_answers_through_the_task_tool(opened: Opened) -> None:
    session = await opened(SUBAGENT, mode=None)
    events = await turn(session)
    assert events[-1].text == "three, says my helper"
    changes = [event.change for event in of(events, TaskChanged) if event.task is not None]
    assert changes == ["created", "started", "updated", "completed"]
    [inner] = [usage for usage in of(events, Usage) if usage.parent == "agent_1"]
    assert inner.input_tokens == 5
    assert "".join(delta.text for delta in of(events, TextDelta)) == "I will delegate.three, says my helper"


def meeting(here: str, there: str) -> str:
    wait = f"touch {here}; until [ -e {there} ]; do sleep 0.05; done; echo met"
    call = f'[[reply.call]]\nname = "bash"\narguments = {{ command = "{wait}" }}\n'
    return f'[[reply]]\nwhen = "be {here}"\nsystem = "for another agent"\n{call}'


AT_ONCE = (
    reply(
        when="^go$",
        call=[
            {"name": "task", "arguments": {"description": "one", "prompt": "be first"}},
            {"name": "task", "arguments": {"description": "two", "prompt": "be second"}},
        ],
    )
    + meeting("first", "second")
    + meeting("second", "first")
    + '[[reply]]\nsystem = "for another agent"\ntimes = 2\ntext = "I saw the other"\n'
    + '[[reply]]\nwhen = "I saw the other"\ntext = "they met"\n'
)


async def test_subagents_of_one_reply_work_at_the_same_time(opened: Opened) -> None:
    session = await opened(AT_ONCE, mode=None)
    async with asyncio.timeout(60):
        events = await turn(session)
    assert events[-1].text == "they met"


async def test_a_subagent_has_no_subagents(opened: Opened) -> None:
    session = await opened(SUBAGENT, mode=None)
    task = await session.tasks.run_agent("count the files", label="x", agent_type="Explore", background=False)
    assert task.status == "completed" and task.output == "there are three"
    child = await session.open_child("agent_9", AGENT_TYPES["explore"], task)
    assert "task" not in child.tools and "write_file" not in child.tools
    await child.close()


async def test_a_subagent_shares_the_tools_of_servers(opened: Opened) -> None:
    class Weather:
        name, description, kind = "mcp__sky__weather", "Tell the weather.", "network"
        Args, parameters = AnyArgs, {"type": "object", "properties": {}}

        def access(self, args: Any, resolve: Any) -> Access:
            return Access(tool=self.name, kind="network")

        async def run(self, args: Any, context: Any) -> str:
            return "it rains"

    call = '[[reply]]\nwhen = "ask"\n[[reply.call]]\nname = "mcp__sky__weather"\n'
    session = await opened(call + '[[reply]]\nwhen = "it rains"\ntext = "take a coat"\n', mode=None)
    session.tools.add(Weather())  # type: ignore[arg-type]
    assert "mcp__sky__weather" in session.info.tools
    task = await session.tasks.run_agent("ask", label="x", agent_type=None, background=False)
    assert task.output == "take a coat"


async def test_a_subagent_may_call_no_tool_that_is_withheld_from_its_parent(opened: Opened) -> None:
    async def call(given: dict[str, Any]) -> str:
        return ""

    names = ("mcp__auth__ask", "mcp__sky__weather", "mcp__sea__tide")
    session = await opened(SUBAGENT, mode=None)
    await session.add_tools(tuple(OwnTool(name=name, description="d", parameters={}, call=call) for name in names))
    session.reserve_tool("mcp__auth__ask", there=True)
    await session.switch_server("sky", on=False)
    task = await session.tasks.run_agent("count the files", label="x", agent_type=None, background=False)
    assert task.output == "there are three"
    child = await session.open_child("agent_9", AGENT_TYPES["general-purpose"], task)
    assert [name for name in child.info.tools if name in names] == ["mcp__sea__tide"]
    await session.switch_server("sea", on=False)
    assert "mcp__sea__tide" not in child.info.tools and child.tools.known("mcp__sea__tide") is None
    await child.close()


async def test_a_rule_that_cannot_be_read_is_refused_and_not_kept(opened: Opened) -> None:
    session = await opened(WRITE + SAY)
    with pytest.raises(ConfigError, match="is not a permission rule"):
        session.add_rule("deny", "mcp__claude.ai__x")
    session.permissions.rebuild()
    session.add_rule("allow", "Write")
    await turn(session)
    assert session.spec.rules == Rules(allow=("Write",)) and Path(session.spec.cwd, "made.txt").exists()


async def test_a_changed_model_is_the_one_that_a_resumed_session_has(opened: Opened, tmp_path: Path) -> None:
    session = await opened(SAY)
    await turn(session)
    (tmp_path / "other.toml").write_text('[[reply]]\ntext = "from the other"\n')
    await session.configure(Change(model=f"scripted:{tmp_path / 'other.toml'}"))
    await session.close()
    again = await opened(SAY, resume=session.id, model=None)
    assert (await turn(again))[-1].text == "from the other"


async def test_the_last_session_is_one_in_which_something_was_said(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first)
    await first.close()
    await (await opened(SAY)).close()
    assert (await opened(SAY, resume="")).id == first.id


async def test_a_turn_interrupted_mid_stream_can_be_followed_by_another(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "one two three four five"\npace = 0.2\n' + SAY)
    events = []
    async for event in run_turn(session, "go"):
        events.append(event)
        if isinstance(event, TextDelta):
            await session.interrupt(event.turn, "enough")
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "interrupted" and ended.text == "one "
    assert (await turn(session, "again"))[-1].text == "done"
    said = [message.text for message in Transcript.read(session.id).view()]
    assert said == ["go", "one ", "again", "done"]


async def test_kill_minus_nine_in_mid_turn_leaves_a_session_that_resumes(opened: Opened, tmp_path: Path) -> None:
    script = tmp_path / "slow.toml"
    script.write_text(WRITE + '[[reply]]\ntext = "a b c"\ndelay = 60\n')
    code = f"""
import asyncio
from treadle import SessionSpec, find_agent, run_turn
async def main():
    spec = SessionSpec.of(cwd={str(tmp_path)!r}, model="scripted:{script}", mode=None, session_id="victim")
    async for event in run_turn(await find_agent().open(spec), "go"):
        print(type(event).__name__, flush=True)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "ToolEnded":
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    session = await opened('[[reply]]\nwhen = "and now"\ntext = "going on"\n', resume="victim")
    assert (await turn(session, "and now"))[-1].text == "going on"


async def test_closing_twice_and_using_afterwards_is_safe(opened: Opened) -> None:
    session = await opened(SAY)
    await asyncio.gather(session.close(), session.close())
    await session.close()
    with pytest.raises(LocalError, match="this session is closed"):
        await session.prompt(Prompt(text="hello?"))
    assert [type(event) for event in session.events(after=0, observer=True).ready()].count(Closed) == 1


DELEGATE_WRITE = (
    calls("task", {"description": "write", "prompt": "write the file"}, when="^go$", usage={"input": 40, "output": 10})
    + calls(
        "write_file",
        {"file_path": "made.txt", "content": "hello"},
        when="write the file",
        system="for another agent",
        usage={"input": 60, "output": 40},
    )
    + says("done", times="always", usage={"input": 60, "output": 40})
)


async def test_a_subagent_works_in_the_mode_of_now_and_not_of_then(opened: Opened) -> None:
    session = await opened(DELEGATE_WRITE, mode="yolo")
    await session.configure(Change(mode="plan"))
    await session.tasks.run_agent("write the file", label="x", agent_type=None, background=False)
    [denied] = of(session.events().ready(), ToolDenied)
    assert denied.parent == "agent_1" and not Path(session.spec.cwd, "made.txt").exists()


async def test_a_subagents_plan_is_its_answer_and_needs_no_approval(opened: Opened) -> None:
    session = await opened(DELEGATE_WRITE, mode="plan", answers=True)
    async with asyncio.timeout(60):  # and not for as long as a question stays open
        task = await session.tasks.run_agent("write the file", label="x", agent_type=None, background=False)
    assert task.output == "done" and of(session.events().ready(), Asked) == []


async def test_a_subagent_spends_from_the_same_purse(opened: Opened) -> None:
    session = await opened(DELEGATE_WRITE, mode=None, limits=Limits(max_tokens=120))
    events = await turn(session)
    [failed] = [event.task for event in of(events, TaskChanged) if event.change == "failed"]
    assert failed.error.code == "budget_exceeded"
    assert events[-1].outcome == "limited" and session.spent.total_tokens == 150


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


async def test_what_came_of_a_background_task_while_nobody_spoke_is_heard_in_the_next_turn(opened: Opened) -> None:
    session = await opened(SAY * 3)
    await session.tasks.start_process("echo built", cwd=session.spec.cwd, env=dict(os.environ))
    await until(lambda: session.tasks.list()[0].status == "completed")
    await turn(session, "and now?")
    heard, asked = [message.text for message in session.context.messages if isinstance(message, UserMessage)]
    assert heard.startswith("[background task ") and "built" in heard and asked == "and now?"


async def test_what_came_of_a_background_task_too_late_for_a_turn_is_heard_in_the_next(opened: Opened) -> None:
    session = await opened(SAY * 3, mode="plan", answers=True)
    async for event in run_turn(session, "plan it"):
        if isinstance(event, Asked):  # all steps are taken
            await session.tasks.start_process("echo built", cwd=session.spec.cwd, env=dict(os.environ))
            await until(lambda: session.tasks.list()[0].status == "completed")
            await session.answer(event.request, Answer(decision="deny"))
    await session.configure(Change(mode="suggest"))
    await turn(session, "and now?")
    said = [message.text for message in session.context.messages if isinstance(message, UserMessage)]
    assert said[0] == "plan it" and "built" in said[1] and said[2] == "and now?"


async def test_the_time_limit_is_one_for_a_plan_and_for_carrying_it_out(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0.0
    monkeypatch.setattr("treadle.agent.session.TurnBudget", partial(TurnBudget, clock=lambda: taken))
    script = '[[reply]]\ntext = "1. write it"\n[[reply]]\ntext = "slow"\ndelay = 60\n'
    session = await opened(script, mode="plan", answers=True, limits=Limits(max_seconds=300))
    events = []
    async for event in run_turn(session, "go"):
        events.append(event)
        if isinstance(event, Asked):
            taken = 300.0  # a person who takes all the time there is
            await session.answer(event.request, Answer(decision="allow"))
    assert events[-1].error.code == "timeout" and len(of(events, Usage)) == 1


async def test_an_interrupted_turn_end_hook_does_not_cost_the_record(opened: Opened, tmp_path: Path) -> None:
    config, mark = Path(paths.config_file()), tmp_path / "hook-runs"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[[hooks.turn_end]]\ncommand = "touch {mark}; sleep 60"\ntimeout = 60\n')
    session = await opened(SAY)
    running = asyncio.create_task(turn(session))
    await until(mark.exists)
    assert session._current is not None
    await session.interrupt(session._current.id)
    assert (await running)[-1].text == "done"
    assert [type(record).__name__ for record in Transcript.read(session.id).records][-1] == "TurnOver"


async def test_clearing_the_conversation_keeps_the_settings_of_tools(opened: Opened) -> None:
    session = await opened(SAY)
    before = dict(session._memory)
    session._memory["todo"] = ["x"]
    session.forget()
    assert session._memory == before != {}


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


async def test_a_relative_working_directory_is_where_we_are_now(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    session = await opened(WRITE + SAY, cwd=".", mode="auto-edit")
    monkeypatch.chdir("/")
    await turn(session)
    assert session.transcript.header.cwd == str(tmp_path / "work") and (tmp_path / "work" / "made.txt").exists()


async def test_a_working_directory_that_is_not_there_is_said_before_anything_begins(opened: Opened) -> None:
    with pytest.raises(ConfigError, match="/nowhere/at/all is not there"):
        await opened(SAY, cwd="/nowhere/at/all")


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


@pytest.mark.parametrize("mode", ["suggest", "plan"])
async def test_what_touches_nothing_needs_no_permission(opened: Opened, mode: str) -> None:
    calls = reply(
        call=[
            {"name": "todo", "arguments": {"todos": [{"content": "look", "status": "pending"}]}},
            {"name": "ask_user", "arguments": {"question": "which one?"}},
            {"name": "task", "arguments": {"description": "d", "prompt": "look around", "agent_type": "Explore"}},
        ]
    )
    session = await opened(calls + '[[reply]]\ntimes = "always"\ntext = "done"\n', mode=mode, answers=True)
    events = await turn(session, answer=Answer(decision="allow", text="this one"))
    assert of(events, ToolDenied) == [] and [asked.kind for asked in of(events, Asked)][:1] == ["question"]
    assert "permission" not in [asked.kind for asked in of(events, Asked)] and len(of(events, ToolEnded)) == 3


async def test_what_it_says_of_itself_names_every_tool_it_offers(opened: Opened, tmp_path: Path) -> None:
    skill = tmp_path / "work" / ".treadle" / "skills" / "x" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: x\ndescription: y\n---\nz\n")
    session = await opened(SAY, tools=("read_file", "skill"))
    assert session.info.tools == session.tools.names == ("read_file", "skill")


FLOOD = calls("bash", {"command": "seq 20000"})
LOOK = reply(
    call=[
        {"name": "grep", "arguments": {"pattern": "^10000$", "path": "PLACE"}},
        {"name": "write_file", "arguments": {"file_path": "PLACE/x", "content": ""}},
    ]
)


@pytest.mark.parametrize("fork", [False, True])
async def test_what_was_too_long_can_be_read_where_it_was_put(opened: Opened, fork: bool) -> None:
    session = await opened(FLOOD + SAY, rules=Rules(allow=("Bash",)))
    await turn(session)
    [place] = Transcript.read(session.id).outputs
    await session.close()
    later = await opened(LOOK.replace("PLACE", place) + SAY, mode="auto-edit", resume=session.id, fork=fork)
    events = await turn(later, "look")
    [ended] = of(events, ToolEnded)
    assert ended.ok and ended.result.endswith(":10000:10000")
    assert [denied.name for denied in of(events, ToolDenied)] == ["write_file"]


async def test_the_files_of_a_skill_can_be_read_wherever_it_is(opened: Opened) -> None:
    skill = Path(paths.config_file()).parent / "skills" / "x"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\nread more.md\n")
    (skill / "more.md").write_text("more to know")
    read = f'[[reply]]\n[[reply.call]]\nname = "read_file"\narguments = {{ path = "{skill}/more.md" }}\n'
    events = await turn(await opened(read + SAY))
    assert "more to know" in of(events, ToolEnded)[0].result
    assert of(await turn(await opened(read + SAY, tools=("read_file",))), ToolEnded) == []


async def test_where_a_permitted_address_leads_is_judged_by_the_rules_too(opened: Opened) -> None:
    session = await opened(SAY, rules=Rules(deny=("WebFetch(evil.example)",)))
    context = session._tool_context(Turn(Prompt(text="x")), "call")
    assert "WebFetch(evil.example)" in context.refused("http://evil.example/x") and not context.refused("http://a.b/")


UNCOUNTED = '[[reply]]\ntext = "done"\n'
READS = '[[reply]]\n[[reply.call]]\nname = "read_file"\narguments = {{ file_path = "{name}" }}\n'


async def test_after_a_change_to_a_smaller_model_the_conversation_fits_its_window(
    opened: Opened, tmp_path: Path
) -> None:
    names = [f"part{number}.txt" for number in range(8)]
    for name in names:
        (tmp_path / "work" / name).write_text(f"{name} says a little\n" * 1500)
    large = "context_window = 200_000\n" + "".join(READS.format(name=name) for name in names) + UNCOUNTED
    small = tmp_path / "small.toml"
    small.write_text("context_window = 16_000\n" + UNCOUNTED * 3)
    session = await opened(large)
    await turn(session)
    assert session.context.tokens() > 40_000
    await session.configure(Change(model=f"scripted:{small}"))
    events = await turn(session, "and now?")
    assert any(isinstance(event, ContextPruned | ContextCompacted) for event in events)
    assert sum(map(estimate, session.context.messages)) < 16_000
