"""A lost terminal is restored by the real agent's own resume: the next request has the whole conversation."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import DONE, USED
from tests.installed import treadle
from tests.live.test_terminal_sends import AnsweringServer, RealAgent, strings
from treadle.agent.providers.script import Script, ScriptedReply
from treadle.io.files import is_locked
from treadle.terminal.detectors import named

NAMES = ("claude", "codex", "gemini", "opencode", "qwen", "copilot")
FIRST, SECOND = "do say 0002.", "do say 0004."


def test_each_agent_with_a_resume_of_its_own_is_here() -> None:
    assert all(named(name).resume for name in NAMES)


def lose(agent: RealAgent) -> None:
    """Kill its supervisor, and wait until all is gone."""
    os.kill(agent.place.pids()[0], signal.SIGKILL)
    while is_locked(agent.place.pid):
        os.sched_yield()


@pytest.mark.parametrize("name", NAMES)
async def test_a_restored_agent_continues_its_conversation(name: str, tmp_path: Path, tmp_path_factory: Any) -> None:
    saying = ScriptedReply(text=DONE, times="always", usage=USED)
    async with AnsweringServer(Script(reply=(saying,))) as server:
        home = tmp_path_factory.mktemp("home")
        agent = await asyncio.to_thread(RealAgent, name, 0, 0, tmp_path, home, server)
        try:
            await asyncio.to_thread(play, agent)
        finally:
            await asyncio.to_thread(agent.run, "kill", agent.name, "--grace", "0")
        asked = [strings(request.body) for request in server.asked]
        assert any(FIRST in " ".join(texts) and SECOND in " ".join(texts) for texts in asked)


def play(agent: RealAgent) -> None:
    agent.load()
    agent.run("send", agent.name, FIRST, "--wait", "--timeout", "120", check=True)
    lose(agent)
    where = ("--socket-dir", str(agent.directory / "t"))
    done = treadle("restore", *where, agent.name, env={**os.environ, **agent.env}, start_new_session=True)
    assert done.returncode == 0, done.stdout + done.stderr
    agent.load()
    agent.run("send", agent.name, SECOND, "--wait", "--timeout", "120", check=True)
