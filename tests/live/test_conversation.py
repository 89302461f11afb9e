"""What goes over more than one turn or process, with the real programs: resume, fork, steering."""

import json
from pathlib import Path

import pytest

from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import HELLO, NAMED, Scenario, check_always, play
from tests.live.agents import agent, model, recording
from treadle.drivers.card import cards
from treadle.events import Usage

ABLE = [name for name in PROGRAMS if name in cards()]


def having(capability: str) -> list[str]:
    return [name for name in ABLE if cards()[name].capabilities.get(capability, "unsupported") != "unsupported"]


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("fork", [False, True], ids=["resume", "fork"])
@pytest.mark.parametrize("name", having("resume"))
async def test_a_session_goes_on_in_another_process(name: str, fork: bool, home: Path, tmp_path: Path) -> None:
    if fork and name not in having("fork"):
        pytest.skip(f"{name} cannot fork")
    async with model(name, tmp_path) as server:
        async with play(agent(name, home, server.url, cwd=tmp_path), NAMED["text"], tmp_path) as first:
            pass
        path = None if fork else recording(name, "resumed")
        again = agent(name, home, server.url, path, tmp_path, fresh=False)
        scenario = Scenario("resumed", ("[[hello]] once more",), lambda played: None)
        async with play(again, scenario, tmp_path, resume=first.session.id, fork=fork) as played:
            check_always(played)
            assert played.ends[0].text == HELLO
            assert (played.session.id == first.session.id) != fork
            messages = json.dumps(server.asked[-1].body)
            assert messages.count("[[hello]]") >= 2, "the model sees what was said before"
            used = played.of(Usage)
            assert sum(usage.output_tokens for usage in used) == sum(usage.output_tokens for usage in first.of(Usage))
