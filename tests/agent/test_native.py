"""The native agent as a session: permissions, plans, resume, fork, rewind, subagents, interruption."""

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
from treadle.agent import loop
from treadle.agent.claude_lines import lines
from treadle.agent.tasks import AGENT_TYPES
from treadle.agent.transcript import Transcript
from treadle.events import (
    Asked,
    TaskChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    Usage,
)
from treadle.io import paths
from treadle.session import Answer, Change, Limits, OwnTool, Prompt, Rules, Start
from treadle.sessions.session import Turn
from treadle.sessions.totals import run_turn


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
    assert [name for name in child.info.tools if name in (*names, "task")] == ["mcp__sea__tide"]
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


async def test_a_subagent_spends_from_the_same_purse(opened: Opened) -> None:
    session = await opened(DELEGATE_WRITE, mode=None, limits=Limits(max_tokens=120_000))
    events = await turn(session)
    [failed] = [event.task for event in of(events, TaskChanged) if event.change == "failed"]
    assert failed.error.code == "budget_exceeded"
    assert events[-1].outcome == "limited" and session.spent.total_tokens == 150_000


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


async def test_where_a_permitted_address_leads_is_judged_by_the_rules_too(opened: Opened) -> None:
    session = await opened(SAY, rules=Rules(deny=("WebFetch(evil.example)",)))
    context = session._tool_context(Turn(Prompt(text="x")), "call")
    assert "WebFetch(evil.example)" in context.refused("http://evil.example/x") and not context.refused("http://a.b/")
