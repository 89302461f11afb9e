"""A real agent program as an Agent of ours, pointed at the scripted model, with or without a recorder between."""

import os
import sys
from pathlib import Path

from tests.drivers.programs import CACHE, HOME, KEY, PROGRAMS, environment, install
from tests.drivers.scenarios import script
from tests.stand_ins import RECORD
from tests.stand_ins.record import HIDE
from treadle.agents import _load
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import cards, launch_of
from treadle.settings.config import AgentSettings
from treadle.testing.server import ModelServer

RECORDINGS = Path(__file__).parents[1] / "drivers"


def model(name: str, cwd: Path) -> ModelServer:
    program = PROGRAMS[name]
    return ModelServer(script(program.tools, str(cwd) if program.absolute else ""), batch=False)


def agent(
    name: str, home: Path, url: str, recording: Path | None = None, cwd: Path | None = None, *, fresh: bool = True
) -> DrivenAgent:
    """`fresh`: its home is empty, and is set up."""
    env = environment(name, home, url, fresh=fresh)
    card = cards()[name]
    command = str(install(name) / card.program)
    hidden = f"{cwd}=/w\n{home}=/home\n{CACHE}=/cache\n{HOME}=/home\n{KEY}=key\n{url}=http://model\n"
    hidden += f"{sys.executable}=python\n{RECORDINGS}=/tests"
    if recording is not None:
        recording.parent.mkdir(parents=True, exist_ok=True)
        command = f"{sys.executable} {RECORD} {recording} {command}"
    settings = AgentSettings(command=command)
    if recording is not None:  # the recorder runs in the agent's sandbox
        settings = AgentSettings(command=command, set={HIDE: hidden}, writes=(str(recording.parent),))
    made = _load(card.driver)(card, launch_of(card, settings), environ=env)
    assert isinstance(made, DrivenAgent)
    return made


def recording(name: str, scenario: str) -> Path | None:
    """Where `make record-agents` keeps it."""
    return RECORDINGS / name / "recordings" / f"{scenario}.jsonl" if os.environ.get("RECORD_AGENTS") else None
