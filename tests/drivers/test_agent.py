"""What every driven agent has in common."""

import os
from pathlib import Path

from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card
from treadle.drivers.launch import launch_of
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
