"""`/agent` and `/background` on a real session."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.agent.commands.conftest import ran
from tests.agent.conftest import Opened
from tests.agent.repository import git, make_repository
from tests.conftest import need
from tests.scripts import calls, reply, says
from tests.waiting import until
from treadle.agent.session import NativeSession
from treadle.agent.tasks import Assignment
from treadle.events import AnyEvent, TaskChanged, TaskGroupChanged, Usage, Warned
from treadle.io.paths import state_dir
from treadle.session import Limits, Prompt
from treadle.sessions.served import run_turn

HELPERS = (
    says("there are three", when="count", usage={"input": 5, "output": 2}, times="always")
    + reply(when="break", error={"status": 400, "message": "too hard"}, times="always")
    + says("one two", when="wait", delay=60, times="always")
)


def events(session: NativeSession) -> list[AnyEvent]:
    return session.events(after=0, observer=True).ready()


async def test_run_waits_and_gives_the_answer(opened: Opened) -> None:
    session = await opened(HELPERS)
    assert await ran(session, "agent run count the files") == "there are three"
    assert await ran(session, "agent count the files") == "there are three"
    assert session.spent.total_tokens == 14, "what subagents use is used by the session"
    assert any(isinstance(event, Usage) and event.parent == "agent_1" for event in events(session))


async def test_run_in_the_background_answers_at_once_and_the_agent_hears_of_it(opened: Opened) -> None:
    session = await opened(HELPERS + '[[reply]]\nwhen = "go on"\ntext = "three, I hear"\n')
    assert await ran(session, "agent run Explore --background count") == "Started agent job: agent_1"
    assert [e.change for e in events(session) if isinstance(e, TaskChanged)][:2] == ["created", "started"]
    assert session.tasks.get("agent_1").agent_type == "Explore"
    await asyncio.wait_for(session.tasks.wait("agent_1"), 60)
    async for _ in run_turn(session, "go on"):
        pass
    said = [message.text for message in session.context.messages]
    assert said[0].startswith("[background task agent_1 (count) completed]\nthere are three") and said[1] == "go on"


async def test_a_run_has_the_model_it_was_given(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[[reply]]\ntext = "from another"\n')
    session = await opened(HELPERS)
    assert await ran(session, f'agent run --model "scripted:{tmp_path / "other.toml"}" count') == "from another"
    assert "cannot read" in await ran(session, "agent run --model scripted:/nowhere count", ok=False)
    assert await ran(session, "agent run count") == "there are three"


async def test_parallel_waits_for_all_and_tells_what_they_said(opened: Opened) -> None:
    session = await opened(HELPERS)
    shown = await ran(session, 'agent parallel --wait a:"count" b=Explore:"count"')
    assert shown.startswith("Background job group group_1: completed (2/2 completed, 0 failed, 0 cancelled, 0 pending)")
    assert "[completed] b agent_2: there are three (output: " in shown
    assert await ran(session, "agent wait group_1") == shown
    groups = [event.change for event in events(session) if isinstance(event, TaskGroupChanged)]
    assert groups == ["created", "updated", "updated", "completed"]


async def test_an_interrupted_parallel_leaves_nothing_running(opened: Opened) -> None:
    session = await opened(HELPERS)
    command = asyncio.create_task(session.command("agent", 'parallel a:"wait" b:"wait"'))
    await until(lambda: [task.status for task in session.tasks.list()] == ["running", "running"])
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert {task.status for task in session.tasks.list()} == {"cancelled"}


SLOWLY = '[[reply]]\nwhen = "slowly"\ntimes = 2\ntext = "word "\nrepeat = 2000\npace = 0.05\n' + HELPERS


async def said_a_word(session: NativeSession, *tasks: str) -> None:
    """Until each of them has, and those that only count have ended."""

    def spoken() -> set[str]:
        return {e.task_id for e in events(session) if isinstance(e, TaskChanged) and e.change == "text"}

    await until(lambda: spoken() >= set(tasks) and all(t.id in tasks or t.completed_at for t in session.tasks.list()))


async def test_an_interrupted_parallel_tells_what_was_said_so_far(opened: Opened) -> None:
    session = await opened(SLOWLY)
    command = asyncio.create_task(session.command("agent", 'parallel a:"count" b:"slowly" c:"slowly"'))
    await said_a_word(session, "agent_2", "agent_3")
    await session.interrupt("/agent", "enough")
    result = await asyncio.wait_for(command, 60)
    assert result and not result.ok
    assert "(1/3 completed, 0 failed, 2 cancelled, 0 pending)" in result.message
    assert "[completed] a agent_1: there are three" in result.message
    assert "## b (agent_2)\n\nword" in result.message and "## c (agent_3)\n\nword" in result.message
    assert {task.status for task in session.tasks.list()} == {"completed", "cancelled"}


async def test_an_interrupted_wait_tells_how_far_they_are(opened: Opened) -> None:
    session = await opened(SLOWLY)
    session.groups.start([Assignment(prompt="count", label="a"), Assignment(prompt="slowly", label="b")])
    waiting = asyncio.create_task(session.command("agent", "wait group_1"))
    await said_a_word(session, "agent_2")
    await session.interrupt("/agent")
    result = await asyncio.wait_for(waiting, 60)
    assert result and "running (1/2 completed, 0 failed, 0 cancelled, 1 pending)" in result.message
    assert session.tasks.get("agent_2").status == "running"


async def test_agents_run_beside_a_turn(opened: Opened) -> None:
    session = await opened(HELPERS + '[[reply]]\nwhen = "^slow$"\ntext = "done"\ndelay = 60\n')
    await session.prompt(Prompt(text="slow"))
    assert await ran(session, "agent run count") == "there are three"
    assert session.busy


async def test_a_running_agent_is_listed_read_told_stopped_and_closed(opened: Opened) -> None:
    slow = '[[reply]]\nwhen = "count slowly"\ntext = "one two three four"\npace = 0.3\n'
    session = await opened(slow + '[[reply]]\nwhen = "faster"\ntext = "five"\n')
    await ran(session, "agent run --background count slowly")
    await until(lambda: any(isinstance(e, TaskChanged) and e.change == "text" for e in events(session)))
    assert "agent_1  running" in await ran(session, "agent list")
    assert "hears it" in await ran(session, "agent send agent_1 faster")
    await asyncio.wait_for(session.tasks.wait("agent_1"), 60)
    shown = await ran(session, "agent read agent_1")
    assert shown == "agent_1 (count slowly): completed\n\none two three four\nfive"
    assert (await ran(session, "agent read agent_1 8")).endswith("\n\nthree four\nfive")
    assert "is completed" in await ran(session, "agent send agent_1 more", ok=False)
    assert await ran(session, "agent close agent_1") == "Closed agent_1"
    assert session.tasks.list() == []


async def test_stopping_takes_the_reason_along(opened: Opened) -> None:
    session = await opened(HELPERS)
    await ran(session, "agent run --background wait")
    assert await ran(session, "agent stop agent_1 not needed any more") == "agent_1 cancelled"
    assert "cancelled: not needed any more" in await ran(session, "agent read agent_1")


async def test_background_processes_are_in_the_same_list(opened: Opened, work: Path) -> None:
    session = await opened(HELPERS)
    task = await session.tasks.start_process("echo hello; sleep 1000", cwd=str(work), env={"PATH": "/usr/bin:/bin"})
    await until(lambda: any(isinstance(e, TaskChanged) and e.change == "text" for e in events(session)))
    assert "process_1  running  echo hello" in await ran(session, "background")
    assert "Nothing" in await ran(session, "agent list")
    assert "hello" in await ran(session, f"background log {task.id}")
    assert await ran(session, "background cancel process_1") == "process_1 cancelled"
    assert await ran(session, "background dismiss process_1") == "Closed process_1"


EDITORS = "".join(
    reply(
        when=f"^make it {name}$",
        call=[
            {"name": "read_file", "arguments": {"file_path": "shared.txt"}},
            {
                "name": "edit_file",
                "arguments": {"file_path": "shared.txt", "old_string": "as it was\n", "new_string": name},
            },
        ],
    )
    + says(f"it is {name}", when="(?s)shared.txt", system=f"worktrees/{name}-")
    for name in ("red", "green", "blue")
)


async def test_three_agents_in_worktrees_edit_the_same_file_of_one_repository(opened: Opened, work: Path) -> None:
    need("git")
    make_repository(work)
    session = await opened(EDITORS + '[[reply]]\nwhen = "only look"\ntext = "seen"\n', mode="auto-edit")
    members = " ".join(f'{name}:"make it {name}"' for name in ("red", "green", "blue"))
    shown = await ran(session, f'agent parallel --isolation worktree {members} looker:"only look"')
    tasks = {task.label: task for task in session.groups.get("group_1").results}
    for name in ("red", "green", "blue"):
        task = tasks[name]
        assert task.output == f"it is {name}" and task.worktree and task.branch and task.cwd == task.worktree
        assert Path(task.worktree, "shared.txt").read_text() == name
        assert f"(branch: {task.branch} in {task.worktree})" in shown
    assert tasks["looker"].worktree is None and tasks["looker"].branch is None
    assert (work / "shared.txt").read_text() == "as it was\n" and git(work, "status", "--porcelain") == ""
    assert git(work, "worktree", "list").count("\n") == 1, "the user's repository has no worktrees of ours"
    shown = [git(work, "show", f"{tasks[name].branch}:shared.txt") for name in ("red", "green", "blue")]
    assert shown == ["red", "green", "blue"]


async def test_an_isolated_agent_may_not_write_to_the_original(opened: Opened, work: Path) -> None:
    need("git")
    make_repository(work)
    overwrite = calls("write_file", {"file_path": str(work / "shared.txt"), "content": "mine"})
    script = overwrite + says("it was refused")
    session = await opened(script, mode="auto-edit")
    assert await ran(session, "agent run --isolation worktree overwrite it") == "it was refused"
    assert (work / "shared.txt").read_text() == "as it was\n"
    assert not os.listdir(os.path.join(state_dir(), "worktrees")), "nothing changed in it, so it is gone"


async def test_what_was_not_committed_is_said_to_be_missing(opened: Opened, work: Path) -> None:
    need("git")
    make_repository(work)
    (work / "shared.txt").write_text("not committed")
    session = await opened(HELPERS)
    await ran(session, "agent run --isolation worktree count")
    note = f"1 uncommitted changes of {work} are not in the worktree of agent_1"
    assert note in [event.message for event in events(session) if isinstance(event, Warned)]
    assert f"! {note}\nthere are three" in await ran(session, "agent read agent_1")


DEAR = calls("glob", {"pattern": "*"}, when="^spend$", times="always", cost=0.25) + says(
    "spent", cost=0.25, times="always"
)


@pytest.mark.parametrize("how", ["", "--detach"])
async def test_a_budget_holds_for_all_agents_together(opened: Opened, how: str) -> None:
    session = await opened(DEAR, limits=Limits(max_cost_usd=0.6))
    members = " ".join(f'{name}:"spend"' for name in "abcd")
    result = await session.command("agent", f"parallel {how} {members}")
    assert result is not None
    shown = await ran(session, f"agent wait {result.data['group']}", ok=False)
    assert "the limit is $0.6000" in shown
    if how:
        await ran(session, f"agent close {result.data['group']}")
    else:
        assert (session.spent.cost_usd or 9) <= 1.0, "each that runs may go over by one call"
