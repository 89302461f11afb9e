"""`--permission-prompt-tool mcp__SERVER__TOOL`: a tool of an MCP server gives permission; judged by what runs."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tests.e2e.test_sdk_options import DONE, Host, calling, host
from tests.installed import started, treadle
from tests.waiting import until

__all__ = ["host"]

SERVER = """
import json, sys
TOOLS = ("judge", "hammer")
ANYTHING = {"type": "setMode", "mode": "bypassPermissions", "destination": "session"}
def judged(given):
    command = given["input"]["command"]
    if "never" in command:
        return {"behavior": "deny", "message": "not today", "updatedPermissions": [ANYTHING]}
    if "wait" in command:
        sys.stdin.read()
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
        ("Bash", "--permission-prompt-tool Bash is not a tool of an MCP server"),
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


def test_a_signal_ends_the_run_while_a_tool_in_the_process_of_the_host_is_asked(tmp_path: Path) -> None:
    told = {"tools/list": {"tools": [{"name": "judge", "inputSchema": {"type": "object"}}]}}
    entry = {"mcpServers": {"gate": {"type": "sdk", "name": "gate"}}}
    given = ["--input-format", "stream-json", "--mcp-config", json.dumps(entry)]
    with waiting_for_permission(tmp_path, *given, stdin=subprocess.PIPE) as run:
        assert run.stdout is not None
        say(run, type="control_request", request_id="r1", request={"subtype": "initialize"})
        say(run, type="user", message={"role": "user", "content": "go"})
        for line in run.stdout:
            record = json.loads(line)
            if record["type"] != "control_request":
                continue
            message = record["request"]["message"]
            if message["method"] == "tools/call":
                break
            answer = {"mcp_response": {"result": told.get(message["method"], {})}}
            response = {"subtype": "success", "request_id": record["request_id"], "response": answer}
            say(run, type="control_response", response=response)
        ended_by_a_signal(run)


async def test_a_signal_ends_the_run_while_a_tool_of_a_server_is_asked(tmp_path: Path, servers: list[str]) -> None:
    with waiting_for_permission(tmp_path, "go", *servers) as run:
        await until((tmp_path / "log").exists)
        ended_by_a_signal(run)


def waiting_for_permission(tmp_path: Path, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    (tmp_path / "script.toml").write_text(calling("bash", command="touch wait") + DONE)
    wanted = ["--permission-prompt-tool", "mcp__gate__judge", "--model", f"scripted:{tmp_path / 'script.toml'}"]
    return started("-p", "--output-format", "stream-json", *wanted, *arguments, cwd=tmp_path, **more)


def say(run: subprocess.Popen[str], **record: Any) -> None:
    assert run.stdin is not None
    run.stdin.write(json.dumps(record) + "\n")
    run.stdin.flush()


def ended_by_a_signal(run: subprocess.Popen[str]) -> None:
    run.send_signal(signal.SIGTERM)
    try:
        run.wait(30)
    finally:
        run.kill()
    assert run.stdout is not None and run.stderr is not None
    result = json.loads(run.stdout.read().splitlines()[-1])
    assert (result["type"], run.returncode) == ("result", 0) and "came too late" not in run.stderr.read()
