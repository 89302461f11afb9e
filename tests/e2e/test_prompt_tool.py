"""`--permission-prompt-tool mcp__SERVER__TOOL`: a tool of an MCP server gives permission; judged by what runs."""

import json
import sys
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tests.e2e.test_sdk_options import DONE, Host, calling, host
from tests.installed import treadle

__all__ = ["host"]

SERVER = """
import json, sys
TOOLS = ("judge", "hammer")
ANYTHING = {"type": "setMode", "mode": "bypassPermissions", "destination": "session"}
def judged(given):
    command = given["input"]["command"]
    if "never" in command:
        return {"behavior": "deny", "message": "not today", "updatedPermissions": [ANYTHING]}
    if "odd" in command:
        return "odd"
    if "other" in command:
        return {"behavior": "allow", "updatedInput": {"command": "touch changed"}}
    return {"behavior": "allow", "updatedInput": given["input"]}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params = asked.get("params") or {}
    told = {}
    if asked["method"] == "initialize":
        told = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        told["serverInfo"] = {"name": "gate", "version": "1"}
    elif asked["method"] == "tools/list":
        told = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    elif asked["method"] == "tools/call":
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps(params["arguments"]) + "\\n")
        told = {"content": [{"type": "text", "text": json.dumps(judged(params["arguments"]))}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""


@pytest.fixture
def servers(tmp_path: Path) -> list[str]:
    (tmp_path / "gate.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": [str(tmp_path / "gate.py"), str(tmp_path / "log")]}
    return ["--mcp-config", json.dumps({"mcpServers": {"gate": entry}}), "--strict-mcp-config"]


def asked(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_the_tool_says_what_may_run_and_what_runs_in_its_place(tmp_path: Path, servers: list[str]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    commands = ("touch fine", "touch never", "touch other", "touch odd")
    (tmp_path / "script.toml").write_text("".join(calling("bash", command=command) for command in commands) + DONE)
    wanted = ["--permission-prompt-tool", "mcp__gate__judge", "--model", f"scripted:{tmp_path / 'script.toml'}"]
    done = treadle("-p", "go", "--output-format", "json", "--verbose", *wanted, *servers, cwd=work)
    [init, *lines, result] = json.loads(done.stdout)
    assert sorted(path.name for path in work.iterdir()) == ["changed", "fine"]
    assert [each["input"]["command"] for each in asked(tmp_path)] == list(commands)
    assert [each["tool_name"] for each in asked(tmp_path)] == ["Bash"] * 4 and asked(tmp_path)[0]["tool_use_id"]
    assert "mcp__gate__hammer" in init["tools"] and "mcp__gate__judge" not in init["tools"]
    assert "AskUserQuestion" not in init["tools"], "the tool answers permission questions and nothing else"
    results = [line["message"]["content"][0]["content"] for line in lines if line["type"] == "user"]
    assert "not today" in results[1] and "no JSON object" in results[3]
    assert [denial["tool_input"]["command"] for denial in result["permission_denials"]] == ["touch never", "touch odd"]


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        (
            "mcp__gate__absent",
            "there is no MCP tool 'mcp__gate__absent' (there are mcp__gate__judge, mcp__gate__hammer)",
        ),
        ("Bash", "--permission-prompt-tool Bash is no tool of an MCP server"),
        ("stdio", "--permission-prompt-tool stdio needs --input-format stream-json"),
    ],
)
def test_a_tool_that_cannot_be_asked_is_refused_before_anything_runs(
    tmp_path: Path, servers: list[str], tool: str, why: str
) -> None:
    (tmp_path / "script.toml").write_text(calling("bash", command="touch made") + DONE)
    model = f"scripted:{tmp_path / 'script.toml'}"
    done = treadle("-p", "go", "--model", model, "--permission-prompt-tool", tool, *servers, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and why in done.stderr and not (tmp_path / "made").exists()


async def test_a_tool_in_the_process_of_the_host_is_asked(host: Host) -> None:
    seen = []

    @sdk.tool("judge", "Judges", {"tool_name": str, "input": dict, "tool_use_id": str})
    async def judge(given: dict[str, Any]) -> dict[str, Any]:
        seen.append(given["input"]["command"])
        return {
            "content": [{"type": "text", "text": json.dumps({"behavior": "allow", "updatedInput": given["input"]})}]
        }

    server = sdk.create_sdk_mcp_server("the.gate", tools=[judge])
    script = calling("Bash", command="touch made") + DONE
    await host.play(script, mcp_servers={"the.gate": server}, permission_prompt_tool_name="mcp__the_gate__judge")
    assert seen == ["touch made"] and (host.work / "made").exists() and "mcp__the_gate__judge" not in host.offered
