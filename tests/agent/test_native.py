"""The native agent as a session: permissions, plans, resume, fork, rewind, subagents, interruption."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.conftest import Opened
from tests.agent.opened import DELEGATE_WRITE, SAY, WRITE, of, turn
from tests.scripts import calls, reply, says
from tests.waiting import until
from treadle.agent import loop
from treadle.agent.claude_lines import lines
from treadle.agent.messages import UserMessage
from treadle.agent.native import NativeAgent
from treadle.agent.tasks import AGENT_TYPES
from treadle.agent.tools.base import AnyArgs
from treadle.agent.transcript import Transcript
from treadle.errors import ConfigError, NotFound
from treadle.events import (
    Asked,
    TaskChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    TurnEnded,
    Usage,
)
from treadle.io import paths
from treadle.session import Access, Answer, Change, Limits, OwnTool, Prompt, Rules, SessionSpec, Start
from treadle.sessions.served import run_turn
from treadle.sessions.session import Turn


async def test_no_model_is_one_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        await NativeAgent({}).open(SessionSpec(cwd=str(tmp_path)))
    assert not (tmp_path / "sessions").exists()


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


async def test_limits_end_a_turn_with_their_own_outcome(opened: Opened) -> None:
    session = await opened(WRITE * 5, mode="auto-edit", limits=Limits(max_iterations=1))
    ended = (await turn(session))[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "limited"
    assert ended.error and ended.error.code == "max_iterations" and ended.iterations == 1


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
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: taken))
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


async def test_the_model_is_that_asked_for_else_of_the_resumed_session_else_of_the_settings(
    opened: Opened, tmp_path: Path, work: Path
) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.toml").write_text(f'model = "{name}"\n' + SAY)
    Path(paths.config_file()).parent.mkdir(exist_ok=True)
    Path(paths.config_file()).write_text(f'model = "scripted:{tmp_path}/three.toml"\n')
    used = []
    first = await opened(SAY, model=f"scripted:{tmp_path}/one.toml")
    await turn(first)
    await first.close()
    for more in (
        {"resume": first.id, "model": None},
        {"model": None},
        {"resume": first.id, "model": f"scripted:{tmp_path}/two.toml"},
    ):
        session = await opened(SAY, **more)
        used.append(session.provider.model)
        await session.close()
    assert used == ["one", "three", "two"]


async def test_the_conversation_is_that_of_the_agent_that_is_named(opened: Opened, work: Path) -> None:
    (work / ".claude" / "agents").mkdir(parents=True)
    (work / ".claude" / "agents" / "scout.md").write_text("---\ntools: Grep\n---\nYou scout.")
    (work / ".claude" / "agents" / "bad.md").write_text("---\npermissionMode: plan\n---\nx")
    for named in ({"as_agent": "Scout"}, {"main_agent": "scout"}):
        session = await opened(SAY, extra=named)
        assert session.info.tools == ("grep",) and session.system().startswith("You scout.")
    with pytest.raises(NotFound, match="there is no agent 'nobody'") as caught:
        await opened(SAY, extra={"as_agent": "nobody", "agent_hints": ("ask ann",)})
    hint = caught.value.hint or ""
    assert (
        "bad.md is not used" in hint
        and "; defined here are general-purpose, " in hint
        and hint.endswith("scout; ask ann")
    )
    Path(paths.config_file()).parent.mkdir(exist_ok=True)
    Path(paths.config_file()).write_text('main_agent = "nobody"\n')
    session = await opened(SAY)
    [note] = [one for one in session.configuration.notes if "nobody" in one]
    assert "which the settings name: this is the usual one" in note and "read_file" in session.info.tools


async def test_a_session_goes_on_from_its_middle_or_in_a_copy_with_its_own_name(opened: Opened) -> None:
    first = await opened(SAY + SAY)
    await turn(first, "one")
    await turn(first, "two")
    uuid = [str(line["uuid"]) for line in lines(first.transcript, "x")][1]
    await first.close()
    fork = await opened(SAY, resume=first.id, fork=True, name="another", session_id="my-own-id")
    assert (fork.id, fork.transcript.name, len(fork.context.messages)) == ("my-own-id", "another", 4)
    again = await opened(SAY, start=Start(resume=first.id, at=uuid))
    assert again.id == first.id and [message.text for message in again.context.messages] == ["one", "done"]
    await again.close()
    assert len(Transcript.read(first.id).view()) == 2, "it is stored"


async def test_a_session_that_cannot_begin_lets_its_history_go(opened: Opened) -> None:
    first = await opened(SAY)
    await turn(first)
    await first.close()
    with pytest.raises(ConfigError):
        await opened(SAY, resume=first.id, rules=Rules(deny=("Bash(((",)))
    assert (await opened(SAY, resume=first.id)).id == first.id


async def test_where_a_permitted_address_leads_is_judged_by_the_rules_too(opened: Opened) -> None:
    session = await opened(SAY, rules=Rules(deny=("WebFetch(evil.example)",)))
    context = session._tool_context(Turn(Prompt(text="x")), "call")
    assert "WebFetch(evil.example)" in context.refused("http://evil.example/x") and not context.refused("http://a.b/")
