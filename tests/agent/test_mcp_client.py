"""A server that is a small script on its standard streams; each line that it was sent is kept in a file."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.tools.workspace import Workspace
from tests.waiting import until
from treadle.agent import toolbox
from treadle.agent.mcp import McpServers
from treadle.errors import ToolError
from treadle.settings.config import McpServer

SERVER = """
import json, sys
HEARD = open("heard", "a")
def say(**fields):
    print(json.dumps({"jsonrpc": "2.0", **fields}), flush=True)
def welcome(message):
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {}}
    say(id=message["id"], result=result)
def tools(message, *names):
    say(id=message["id"], result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
def said(message, text):
    say(id=message["id"], result={"content": [{"type": "text", "text": text}]})
names = ["one"]
def heard(message):
    pass
MORE
for line in sys.stdin:
    HEARD.write(line)
    HEARD.flush()
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        welcome(message)
    elif method == "tools/list":
        tools(message, *names)
    else:
        heard(message)
"""


class Started:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.warnings: list[str] = []
        self.changed: list[str] = []
        env = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
        self.servers = McpServers(cwd=str(cwd), env=env, warn=self.warnings.append, changed=self.changed.append)
        (cwd / "work").mkdir()
        self.workspace = Workspace(cwd / "work", timeout=30.0)

    async def start(self, more: str) -> None:
        code = SERVER.replace("MORE", more)
        await self.servers.start({"x": McpServer(command=sys.executable, args=("-c", code))}, timeout=60)

    async def call(self, name: str, workspace: Workspace | None = None) -> str:
        tool = next(tool for tool in self.servers.tools if tool.name == f"mcp__x__{name}")
        return await toolbox.run(tool, toolbox.decode(tool, "{}"), (workspace or self.workspace).context)

    def heard(self, method: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (self.cwd / "heard").read_text().splitlines()]
        return [line for line in lines if line.get("method") == method]


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[Started]:
    started = Started(tmp_path)
    yield started
    await started.servers.close()


async def test_a_server_is_told_who_calls_and_in_which_revision(started: Started) -> None:
    await started.start("")
    [asked] = started.heard("initialize")
    assert asked["params"]["protocolVersion"] == "2025-11-25"
    assert asked["params"]["clientInfo"]["name"] == "treadle" and asked["params"]["capabilities"] == {"roots": {}}
    assert started.heard("notifications/initialized")


async def test_a_server_may_ask_for_a_ping_and_the_roots_and_for_nothing_else(started: Started) -> None:
    await started.start("""
answers = {}
def heard(message):
    global call
    if message.get("method") == "tools/call":
        call = message
        for name in ("ping", "roots/list", "sampling/createMessage", "elicitation/create"):
            say(id=name, method=name, params={})
    elif "method" not in message:
        answers[message["id"]] = message.get("result", message.get("error"))
        if len(answers) == 4:
            said(call, json.dumps(answers))
""")
    answers = json.loads(await started.call("one"))
    assert answers["ping"] == {}
    assert [root["uri"] for root in answers["roots/list"]["roots"]] == [started.cwd.as_uri()]
    assert answers["sampling/createMessage"]["code"] == answers["elicitation/create"]["code"] == -32601


async def test_a_call_that_is_given_up_is_withdrawn(started: Started) -> None:
    await started.start("""
def heard(message):
    if message.get("params", {}).get("requestId"):
        HEARD.write(json.dumps({"method": "withdrawn", "id": message["params"]["requestId"]}) + "\\n")
        HEARD.flush()
""")
    (started.cwd / "short").mkdir()
    with pytest.raises(ToolError, match="did not answer within 0.2 s"):
        await started.call("one", Workspace(started.cwd / "short", timeout=0.2))
    await until(lambda: bool(started.heard("withdrawn")))
    assert started.heard("withdrawn")[0]["id"] == started.heard("tools/call")[0]["id"]


async def test_a_server_that_knows_only_the_revision_without_a_greeting_is_used_in_it(started: Started) -> None:
    await started.start("""
def welcome(message):
    say(id=message["id"], error={"code": -32022, "message": "unsupported", "data": {"supported": ["2026-07-28"]}})
def heard(message):
    if message.get("method") == "server/discover":
        say(id=message["id"], result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    elif message.get("method") == "tools/call":
        said(message, message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"])
""")
    assert started.warnings == []
    assert await started.call("one") == "2026-07-28"


async def test_a_revision_that_no_one_knows_is_a_warning(started: Started) -> None:
    await started.start("""
def welcome(message):
    say(id=message["id"], result={"protocolVersion": "1999-01-01", "capabilities": {}})
""")
    assert "revision 1999-01-01" in started.warnings[0]


async def test_a_server_that_has_ended_counts_as_failed(started: Started) -> None:
    await started.start("""
def heard(message):
    if message.get("method") == "tools/call":
        sys.exit("enough")
""")
    with pytest.raises(ToolError, match="it has ended; its last words: enough"):
        await started.call("one")
    assert started.servers.states == {"x": "failed"}
    with pytest.raises(ToolError, match="has ended"):
        await asyncio.wait_for(started.call("one"), 60)
