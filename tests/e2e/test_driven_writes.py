"""What our own programs write, driven as outside agents over each wire, from every door: on disk, or denied aloud.

In a repository as `git init` leaves it: nothing of ours is there before the first write.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import pytest

from tests.doors.sidecar.test_door import RUN, order
from tests.installed import TREADLE
from tests.scripts import calls, says
from tests.tiers import spread
from treadle.doors.worker.door import WORKING
from treadle.wire.sidecar.connection import Run, WorkspaceSpec

PATIENCE = 90.0
BIN = Path(TREADLE).parent
AGENTS = {
    "acp": f"acp:{TREADLE} acp",
    "worker": f"worker:{BIN / 'treadle-worker'}",
    "sidecar": f"sidecar:{BIN / 'treadle-sidecar'}",
}
HOLDER = "haid:ann.laptop-1a2b/coder"
LIBRARY = """
import asyncio, sys, treadle

async def main():
    async with treadle.open(agent=sys.argv[1], mode="full-auto") as conversation:
        async for event in conversation.turn("write"):
            print(event)

asyncio.run(main())
"""


class Desk:
    """A repository, and the environment of a person who works in it with a scripted model."""

    def __init__(self, place: Path, agent: str) -> None:
        self.agent, self.work = AGENTS[agent], place / "work"
        self.work.mkdir()
        subprocess.run(["git", "init", "-q", self.work], check=True)
        # In the workspace, because the agent is confined to it.
        writes = calls("write_file", {"file_path": "made.txt", "content": "made\n"})
        (self.work / "model.toml").write_text(writes + says("done", times="always"))
        self.env = {**os.environ, "HOME": str(place), "TREADLE_MODEL": f"scripted:{self.work / 'model.toml'}"}

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        pipe, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        return await asyncio.create_subprocess_exec(
            *words, env=self.env, cwd=self.work, stdin=pipe, stdout=pipe, stderr=both
        )

    async def run(self, *words: str, given: str = "") -> str:
        out, _ = await (await self.start(*words)).communicate(given.encode())
        return out.decode()

    async def talk(self, *words: str, opening: Any, reply: Callable[[Any], list[Any] | None]) -> str:
        """All that a door says; `reply` has what it is told after each message, and None at the end."""
        link = await self.start(TREADLE, *words, "--agent", self.agent)
        assert link.stdin is not None and link.stdout is not None
        heard, more = "", [opening]
        while more is not None:
            link.stdin.write("".join(f"{json.dumps(one)}\n" for one in more).encode())
            line = (await link.stdout.readline()).decode()
            assert line, heard
            heard, more = heard + line, reply(json.loads(line)) if line.startswith("{") else []
        link.stdin.close()
        await link.wait()
        return heard


async def oneshot(desk: Desk) -> str:
    return await desk.run(TREADLE, "-p", "write", "--agent", desk.agent, "--permission-mode", "full-auto")


async def stream_json(desk: Desk) -> str:
    """A program that takes us for Claude Code."""
    record = {"type": "user", "message": {"role": "user", "content": "write"}}
    words = ("-p", "--agent", desk.agent, "--input-format", "stream-json", "--output-format", "stream-json")
    more = ("--verbose", "--permission-mode", "full-auto")
    return await desk.run(TREADLE, *words, *more, given=json.dumps(record) + "\n")


async def worker(desk: Desk) -> str:
    config = {"model": "", "system_prompt": "", "tools": ["read_file", "write_file", *WORKING]}
    config |= {"capabilities": ["approval_mode"], "approval_mode": "full-auto"}

    def reply(told: Any) -> list[Any] | None:
        if told["type"] == "init_ok":
            return [{"type": "send", "id": "2", "message": "write"}]
        return None if told["type"] in ("result", "error") else []

    return await desk.talk("worker", opening={"type": "init", "id": "1", "config": config}, reply=reply)


async def sidecar(desk: Desk) -> str:
    place = WorkspaceSpec(root=str(desk.work), mode="pass_through", include=[], exclude=[])
    run = msgspec.to_builtins(Run(id=RUN, work_order=order(desk.work, workspace=place)))
    return await desk.talk("sidecar", opening=run, reply=lambda told: None if told["t"] in ("final", "fatal") else [])


async def editor(desk: Desk) -> str:
    def call(id: str, method: str, **params: Any) -> Any:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    def reply(told: Any) -> list[Any] | None:
        if told.get("id") == "greet":
            return [call("open", "session/new", cwd=str(desk.work), mcpServers=[])]
        if told.get("id") == "open":
            prompt = [{"type": "text", "text": "write"}]
            return [call("turn", "session/prompt", sessionId=told["result"]["sessionId"], prompt=prompt)]
        return None if told.get("id") == "turn" else []

    greeting = call("greet", "initialize", protocolVersion=1, clientCapabilities={})
    return await desk.talk("acp", "--permission-mode", "full-auto", opening=greeting, reply=reply)


async def app_server(desk: Desk) -> str:
    def reply(told: Any) -> list[Any] | None:
        if told.get("id") == 1:
            return [{"id": 2, "method": "thread/start", "params": {"cwd": str(desk.work), "approvalPolicy": "never"}}]
        if told.get("id") == 2:
            turn = {"threadId": told["result"]["thread"]["id"], "input": [{"type": "text", "text": "write"}]}
            return [{"id": 3, "method": "turn/start", "params": turn}]
        return None if "error" in told or told.get("method") == "turn/completed" else []

    greeting = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}}
    return await desk.talk("app-server", "--permission-mode", "full-auto", opening=greeting, reply=reply)


async def mcp(desk: Desk) -> str:
    def reply(told: Any) -> list[Any] | None:
        if told.get("id") == 1:
            call = {"name": "run", "arguments": {"prompt": "write", "mode": "full-auto"}}
            notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            return [notice, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}]
        return None if told.get("id") == 2 else []

    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    return await desk.talk("mcp", "--permission-mode", "full-auto", opening=greeting, reply=reply)


async def a2a(desk: Desk) -> str:
    words = ("a2a", "--agent", desk.agent, "--port", "0", "--no-token", "--permission-mode", "full-auto")
    server = await desk.start(TREADLE, *words)
    assert server.stdout is not None
    heard = line = ""
    while not line.startswith("http"):
        line = (await server.stdout.readline()).decode()
        assert line, heard
        heard += line

    def send() -> str:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "write"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        with urlopen(Request(line.strip(), json.dumps(body).encode(), headers), timeout=PATIENCE) as answer:
            return str(answer.read())

    try:
        return await asyncio.to_thread(send)
    finally:
        server.terminate()
        await server.communicate()


async def library(desk: Desk) -> str:
    return await desk.run(sys.executable, "-c", LIBRARY, desk.agent)


DOORS: dict[str, Callable[[Desk], Awaitable[str]]] = {
    "treadle -p": oneshot,
    "stream-json": stream_json,
    "worker": worker,
    "sidecar": sidecar,
    "acp": editor,
    "app-server": app_server,
    "mcp": mcp,
    "a2a": a2a,
    "library": library,
}


@pytest.mark.parametrize(("door", "agent"), spread(product(DOORS, AGENTS), quick=0, slow=6))
@pytest.mark.slow
async def test_a_driven_agent_writes_in_a_fresh_repository(door: str, agent: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, agent)
    async with asyncio.timeout(PATIENCE):
        said = await DOORS[door](desk)
    assert (desk.work / "made.txt").is_file(), said
    assert "denied" not in said.replace('"permission_denials":[]', ""), said


@pytest.mark.parametrize(
    ("door", "agent"),
    spread(
        [*((door, "acp") for door in DOORS), *(("treadle -p", agent) for agent in ("worker", "sidecar"))],
        quick=0,
        slow=5,
    ),
)
@pytest.mark.slow
async def test_a_write_that_another_agents_claim_forbids_is_reported_as_denied(
    door: str, agent: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path, agent)
    claim = [BIN / "heimdall-claim", "claim", "made.txt", "--task", "t"]
    subprocess.run(claim, env={**desk.env, "HEIMDALL_HAID": HOLDER}, cwd=desk.work, check=True)
    async with asyncio.timeout(PATIENCE):
        said = await DOORS[door](desk)
    assert not (desk.work / "made.txt").exists()
    assert HOLDER in said, "who holds it is in what the door says"
