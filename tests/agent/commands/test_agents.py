"""`/agent` on a real session."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.agent.commands.conftest import ran
from tests.agent.conftest import Opened
from tests.agent.repository import make_repository
from tests.conftest import need
from tests.scripts import calls, reply, says
from tests.waiting import until
from treadle.agent.session import NativeSession
from treadle.events import AnyEvent, TaskChanged
from treadle.io.paths import state_dir
from treadle.session import Limits
from treadle.sessions.totals import run_turn

HELPERS = (
    says("there are three", when="count", usage={"input": 5, "output": 2}, times="always")
    + reply(when="break", error={"status": 400, "message": "too hard"}, times="always")
    + says("one two", when="wait", delay=60, times="always")
)


def events(session: NativeSession) -> list[AnyEvent]:
    return session.events(after=0, observer=True).ready()


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


async def test_a_single_word_is_a_wrong_name_and_no_prompt(opened: Opened) -> None:
    session = await opened(HELPERS)
    result = await session.command("agent", "codexx")
    assert result is not None and not result.ok and "'codexx' is no agent" in result.message
    assert session.tasks.list() == []


async def test_an_interrupted_parallel_leaves_nothing_running(opened: Opened) -> None:
    session = await opened(HELPERS)
    command = asyncio.create_task(session.command("agent", 'parallel a:"wait" b:"wait"'))
    await until(lambda: [task.status for task in session.tasks.list()] == ["running", "running"])
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert {task.status for task in session.tasks.list()} == {"cancelled"}


async def test_an_isolated_agent_may_not_write_to_the_original(opened: Opened, work: Path) -> None:
    need("git")
    make_repository(work)
    overwrite = calls("write_file", {"file_path": str(work / "shared.txt"), "content": "mine"})
    script = overwrite + says("it was refused")
    session = await opened(script, mode="auto-edit")
    assert await ran(session, "agent run --isolation worktree overwrite it") == "it was refused"
    assert (work / "shared.txt").read_text() == "as it was\n"
    assert not os.listdir(os.path.join(state_dir(), "worktrees")), "nothing changed in it, so it is gone"


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
    assert "of 0.6 are spent" in shown
    if how:
        await ran(session, f"agent close {result.data['group']}")
    else:
        assert (session.spent.cost_usd or 9) <= 1.0, "each that runs may go over by one call"
