"""MCP servers that a session is given reach each real program: it starts them, with their keys, and the model can use
their tools; no key is on a command line, and none of them is left afterwards."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.notes_server import SAID, TOOL
from tests.drivers.notes_server import __file__ as NOTES
from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import DONE, PATIENCE, USED, Played, Scenario, go_through
from tests.live.agents import agent, recording
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.drivers.card import cards
from treadle.events import ToolEnded, ToolStarted, Warned
from treadle.io.process import table
from treadle.session import SessionSpec, Toolset
from treadle.testing.server import ModelServer

KEY = "k3y-of-the-notes"
NAMES = {"codex": "mcp__notes::recall", "gemini": "mcp_notes_recall", "opencode": "notes_recall"}
NAMES |= {"copilot": "notes-recall"}
"""What the model calls it; mcp__notes__recall where nothing is here."""
TAKING = [name for name in PROGRAMS if cards()[name].capabilities.get("servers") == "native"]


def notes(log: Path) -> dict[str, dict[str, Any]]:
    return {"notes": {"command": sys.executable, "args": [NOTES, str(log)], "env": {"NOTES_KEY": "${WANTED}"}}}


def everybody() -> list[str]:
    return [" ".join(table.command_line(each.pid)) for each in table.processes()]


@pytest.mark.parametrize("name", TAKING)
async def test_a_given_server_is_started_and_its_tool_is_called(name: str, tmp_path: Path) -> None:
    home, work, log = tmp_path / "home", tmp_path / "work", tmp_path / "work" / "log"
    home.mkdir()
    work.mkdir()
    call = CallLine(name=NAMES.get(name, f"mcp__notes__{TOOL}"), arguments={}, id="call_1")
    calling = ScriptedReply(when=r"\[\[recall\]\]", text="Let me see.", call=(call,), usage=USED)
    titled = ScriptedReply(system="You are a title generator", text="A title", usage=USED, times="always")
    played = Script(reply=(titled, calling, ScriptedReply(text=DONE, usage=USED, times="always")))
    async with ModelServer(played, batch=False) as server:
        made = agent(name, home, server.url, recording(name, "served"), work)
        spec = SessionSpec(cwd=str(work), mode="full-auto", env={"WANTED": KEY}, tools=Toolset(servers=notes(log)))
        async with asyncio.timeout(2 * PATIENCE):
            session = await made.open(spec)
            try:
                found = await go_through(session, Scenario("served", ("[[recall]]",), lambda played: None))
                assert not [line for line in everybody() if KEY in line]
            finally:
                await session.close()
    started = [json.loads(line) for line in log.read_text().splitlines()]
    assert started and all(each["key"] == KEY for each in started)
    assert found.ends[0].text == DONE, found.ends
    assert not [event for event in found.of(Warned) if event.code == "not_used"]
    assert SAID in json.dumps([request.body for request in server.asked]), "the model read what the tool said"
    assert _of_the_tool(found)
    assert not [line for line in everybody() if str(log) in line]


def _of_the_tool(found: Played) -> bool:
    calls = {event.call for event in found.of(ToolStarted) if TOOL in event.name or "notes" in event.name.lower()}
    return any(event.call in calls and event.ok for event in found.of(ToolEnded))
