"""What every driven agent has in common."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.waiting import until
from treadle.agents import _load
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card, cards
from treadle.drivers.launch import Launch, launch_of
from treadle.errors import PeerStalled
from treadle.io.process import table
from treadle.session import SessionSpec
from treadle.sessions.session import BaseSession


class Never(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> BaseSession:
        raise AssertionError("a probe opens nothing")


async def test_a_probe_sees_no_more_of_the_environment_than_a_run(tmp_path: Path) -> None:
    program = tmp_path / "some-agent"
    seen = tmp_path / "seen"
    program.write_text(f"#!/bin/sh\nenv > {seen}\necho some-agent 3.2.1\n")
    program.chmod(0o755)
    card = Card(name="some", title="Some", driver="x:y", how="by hand", program=str(program), environment=("SOME_KEY",))
    around = {"PATH": os.environ["PATH"], "SOME_KEY": "mine", "OTHER_API_KEY": "not-its-own", "TREADLE_AGENT": "claude"}
    agent = Never(card, launch_of(card), environ=around)
    assert (await agent.probe()).version == "3.2.1"
    told = dict(line.partition("=")[::2] for line in seen.read_text().splitlines())
    assert told["SOME_KEY"] == "mine" and "OTHER_API_KEY" not in told and "TREADLE_AGENT" not in told
    assert set(told) - {"PWD", "SHLVL", "_", "OLDPWD"} <= set(agent.env({}))


async def test_a_program_whose_version_is_no_longer_waited_for_is_ended(tmp_path: Path) -> None:
    program, began = tmp_path / "some-agent", tmp_path / "began"
    program.write_text(f"#!/bin/sh\necho $$ > {began}.new; mv {began}.new {began}; exec sleep 600\n")
    program.chmod(0o755)
    card = Card(name="some", title="Some", driver="x:y", how="by hand", program=str(program))
    asking = asyncio.create_task(Never(card, launch_of(card), environ={"PATH": os.environ["PATH"]}).version())
    await until(began.exists)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: table.look(int(began.read_text())) is None)


@pytest.mark.parametrize("name", ["claude", "codex", "pi", "kimi"])
async def test_how_long_it_may_take_to_open_a_session_is_a_setting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("[timeouts]\nagent_start = 0.01\n")
    agent = _load(cards()[name].driver)(cards()[name], Launch(argv=("sh", "-c", "exec sleep 600")))
    with pytest.raises(PeerStalled) as stalled:
        await agent.open(SessionSpec.of(cwd=str(tmp_path)))
    assert "within 0.0" in stalled.value.message and "timeouts.agent_start" in str(stalled.value)
    assert "None" not in str(stalled.value)
