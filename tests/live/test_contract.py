"""The contract of drivers, with the real programs against the scripted model. `make test-agents` runs it."""

import json
from pathlib import Path

import pytest

from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import NAP, SCENARIOS, Scenario, check_always, fits, play
from tests.live.agents import agent, model, recording
from treadle.drivers.card import cards
from treadle.io.process import table
from treadle.sessions.abilities import can as able

CASES = [
    pytest.param(name, scenario, id=f"{name}-{scenario.name}")
    for name in PROGRAMS
    for scenario in SCENARIOS
    if name in cards() and fits(cards()[name], scenario)
]


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def sleeping() -> list[int]:
    """The processes of the command that is interrupted, in whatever shell."""
    return [each.pid for each in table.processes() if NAP in " ".join(table.command_line(each.pid))]


@pytest.mark.parametrize(("name", "scenario"), CASES)
async def test_the_real_program_keeps_the_contract(name: str, scenario: Scenario, home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with model(name, work) as server:
        driven = agent(name, home, server.url, recording(name, scenario.name), work)
        async with play(driven, scenario, work, running=lambda: bool(sleeping())) as played:
            tree = played.session.peer.child.tree  # type: ignore[attr-defined]
            check_always(played)
            scenario.check(played)
            assert played.seconds < 2.0, "an interrupt takes no longer"
            assert sleeping() == [], "nothing of an interrupted turn runs on"
            assert (work / "marker.txt").exists() == (scenario.name == "allowed")
            assert (work / "note.txt").exists() == (scenario.name == "file")
            changed = scenario.name == "another_input" and able(cards()[name].capabilities, "changed_input")
            assert (work / "other.txt").exists() == changed, "what was approved runs, and nothing else"
            said = json.dumps([request.body for request in server.asked])
            if scenario.name == "told_more":
                assert ("[[hello]]" in said) == able(cards()[name].capabilities, "steer"), "what it is told is told"
            if scenario.name == "another_input" and name == "codex":
                assert "make a new call with exactly this input" in said, "its refusals carry no words: they are added"
        assert tree.processes() == [], "nothing is left behind"
