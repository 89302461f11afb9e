"""In the mode full-auto an agent writes its workspace and nothing else, whatever it asks. Judged by effect."""

from pathlib import Path

import pytest

from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import DONE, USED, Scenario, play
from tests.live.agents import agent
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.io.sandbox import methods
from treadle.testing.server import ModelServer


@pytest.mark.skipif(methods.available().method is None, reason="this machine can confine nothing")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
async def test_by_default_an_agent_writes_its_workspace_and_nothing_else(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work, home, outside = tmp_path / "work", tmp_path_factory.mktemp("home"), tmp_path / "outside.txt"
    work.mkdir()
    tool, arguments = PROGRAMS[name].tools.shell(f"touch inside.txt {outside}; echo tried")
    calls = (CallLine(name=tool, arguments=arguments, id="call_1"),)
    title = ScriptedReply(system="You are a title generator", text="A title", usage=USED, times="always")
    first = ScriptedReply(when="begin", call=calls, usage=USED)
    async with ModelServer(
        Script(reply=(title, first, ScriptedReply(text=DONE, usage=USED, times="always")))
    ) as server:
        scenario = Scenario("confined", ("begin",), lambda played: None, mode="full-auto")
        driven = agent(name, home, server.url, cwd=work)
        async with play(driven, scenario, work) as played:
            pass
    assert played.ends[0].text == DONE
    assert (work / "inside.txt").exists() and not outside.exists()
