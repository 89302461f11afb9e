"""Servers are real programs: the official SDK's own server, and small hostile ones."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.pixels import png
from tests.agent.test_mcp_client import SERVER
from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.mcp import McpServers
from treadle.errors import ToolError
from treadle.settings import trust
from treadle.settings.config import McpServer, find_servers
from treadle.wire.common.images import encoded

GOOD = """
import os, sys
from mcp.server import MCPServer
server = MCPServer("good")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool()
def fail() -> str:
    raise ValueError("no such luck")

@server.tool()
def secret() -> str:
    return os.environ.get("GIVEN", "") + os.environ.get("KEPT_BACK", "")

if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""

HOSTILE = SERVER.replace(
    "MORE",
    """
import os, subprocess, time
names[:] = ["die", "hang", "daemon"]
def heard(message):
    name = message.get("params", {}).get("name")
    if name == "die":
        print("last breath", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "hang":
        time.sleep(1000)
    elif name == "daemon":
        said(message, str(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid))
""",
)

LEGACY = (
    f"""
PNG = "{encoded(png())}"
"""
    + """
import json, sys
print("welcome to my server")
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "old one", "inputSchema": {"type": "object"}}]},
        "tools/call": {
            "content": [{"type": "text", "text": "old"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]
        },
    }
    if message.get("method") in results:
        print("not json")
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}), flush=True)
"""
)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
async def servers(tmp_path: Path, warnings: list[str]) -> AsyncIterator[McpServers]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    servers = McpServers(cwd=str(tmp_path), env=env, warn=warnings.append)
    yield servers
    await servers.close()


def python(code: str, *args: str, **env: str) -> McpServer:
    return McpServer(command=sys.executable, args=("-c", code, *args), env=env)


async def call(servers: McpServers, workspace: Workspace, name: str, **args: object) -> str:
    tool = next(tool for tool in servers.tools if tool.name == name)
    return await toolbox.run(tool, toolbox.decode(tool, json.dumps(args)), workspace.context)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work", timeout=30.0, keep_image=lambda data, suffix: f"kept.{suffix}")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ('"nonsense"', "its answer cannot be read"),
        ('{"content": [{"type": "text", "text": "x" * (17 << 20)}]}', "longer"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_an_error_at_once(
    servers: McpServers, workspace: Workspace, answer: str, told: str
) -> None:
    code = LEGACY.replace(
        '    if message.get("method")', f'    results["tools/call"] = {answer}\n    if message.get("method")'
    )
    await servers.start({"x": python(code)})
    with pytest.raises(ToolError, match=told):
        await call(servers, workspace, "mcp__x__old_one")
    with pytest.raises(ToolError, match=told):
        await call(servers, workspace, "mcp__x__old_one")


@pytest.mark.slow
async def test_tools_of_a_server_are_offered_and_called(
    servers: McpServers, workspace: Workspace, warnings: list[str]
) -> None:
    await servers.start({"good": python(GOOD, GIVEN="given")}, timeout=60)
    assert warnings == []
    add = next(tool for tool in servers.tools if tool.name == "mcp__good__add")
    assert (add.kind, add.description) == ("other", "Add two numbers.")
    assert toolbox.parameters(add)["required"] == ["a", "b"]
    assert await call(servers, workspace, "mcp__good__add", a=2, b=3) == "5"
    with pytest.raises(ToolError, match="Error executing tool fail"):
        await call(servers, workspace, "mcp__good__fail")
    assert await call(servers, workspace, "mcp__good__secret") == "given"


async def test_a_server_that_dies_costs_the_call_and_says_its_last_words(
    servers: McpServers, workspace: Workspace
) -> None:
    await servers.start({"good": python(HOSTILE), "bad": python("")}, timeout=60)
    assert servers.states == {"good": "connected", "bad": "failed"}
    with pytest.raises(ToolError, match="last breath"):
        await call(servers, workspace, "mcp__good__die")
    with pytest.raises(ToolError, match="good"):
        await call(servers, workspace, "mcp__good__daemon")


async def test_nothing_of_a_server_outlives_the_session(servers: McpServers, workspace: Workspace) -> None:
    await servers.start({"good": python(HOSTILE)}, timeout=60)
    pid = int(await call(servers, workspace, "mcp__good__daemon"))
    os.kill(pid, 0)
    await servers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_broken_servers_are_warnings_and_the_good_one_works(servers: McpServers, warnings: list[str]) -> None:
    await servers.start(
        {
            "missing": McpServer(command="/no/such/program"),
            "crash": python("import sys; sys.exit('I cannot go on')"),
            "empty": McpServer(),
            "old": McpServer(url="http://127.0.0.1:9/", type="sse"),
            "nobody": McpServer(url="http://127.0.0.1:9/mcp"),
            "legacy": python(LEGACY),
        },
        timeout=60,
    )
    assert [tool.name for tool in servers.tools] == ["mcp__legacy__old_one"]
    said = {warning.split("'")[1]: warning for warning in warnings}
    assert sorted(said) == ["crash", "empty", "missing", "nobody", "old"]
    assert "I cannot go on" in said["crash"]
    assert "no such" in said["missing"].lower()


def project(tmp_path: Path, content: object) -> None:
    (tmp_path / ".git").mkdir(exist_ok=True)
    (tmp_path / "deep").mkdir(exist_ok=True)
    (tmp_path / ".mcp.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_servers_of_a_project_need_trust(tmp_path: Path) -> None:
    project(tmp_path, {"mcpServers": {"theirs": {"command": "evil"}}})
    mine = {"mine": McpServer(command="good")}
    found = find_servers(str(tmp_path / "deep"), mine, {})
    assert list(found.servers) == ["mine"]
    assert found.ignored == (f"{tmp_path}/.mcp.json: mcpServers.theirs",)
    trust.trust(str(tmp_path))
    assert sorted(find_servers(str(tmp_path / "deep"), mine, {}).servers) == ["mine", "theirs"]
    assert sorted(find_servers(str(tmp_path), mine, {}, trusted=True).servers) == ["mine", "theirs"]


def test_variables_are_filled_in_and_disabled_servers_left_out(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "mcpServers": {
                "a": {"type": "stdio", "command": "${BIN:-run}", "args": ["--key=${KEY}"], "env": {"K": "${KEY}"}},
                "b": {"url": "https://x/${KEY}", "headers": {"Authorization": "Bearer ${KEY}"}},
                "c": {"command": "x", "disabled": True},
            }
        },
    )
    servers = find_servers(str(tmp_path), {}, {"KEY": "k"}, trusted=True).servers
    assert sorted(servers) == ["a", "b"]
    assert (servers["a"].command, servers["a"].args, servers["a"].env) == ("run", ("--key=k",), {"K": "k"})
    assert (servers["b"].url, servers["b"].headers) == ("https://x/k", {"Authorization": "Bearer k"})


def test_only_what_a_person_trusts_is_taken_from_a_project(tmp_path: Path) -> None:
    project(tmp_path, {"mcpServers": {"theirs": {"command": "evil"}}})
    assert list(find_servers(None, {"mine": McpServer(command="good")}, {}, trusted=True).servers) == ["mine"]
    trust.trust(str(tmp_path))
    found = find_servers(str(tmp_path), {}, {}, trusted=False)
    assert found.servers == {} and found.ignored == (f"{tmp_path}/.mcp.json: mcpServers.theirs",)
    (tmp_path / "deep" / ".mcp.json").write_text('{"mcpServers": {"near": {"command": "x"}}}')
    assert list(find_servers(str(tmp_path / "deep"), {}, {}, trusted=True).servers) == ["near"]
    (tmp_path / "deep" / ".git").mkdir()
    assert trust.remove(str(tmp_path))
    if os.geteuid() != 0:
        return
    os.chown(tmp_path / "deep", 4242, -1)
    found = find_servers(str(tmp_path / "deep"), {}, {})
    assert found.servers == {} and len(found.ignored) == 1 and "mcpServers" not in found.ignored[0]
    assert found.ignored[0].startswith(f"{tmp_path}/deep/.mcp.json: ")
    assert list(find_servers(str(tmp_path / "deep"), {}, {}, trusted=True).servers) == ["near"]


def names(servers: McpServers) -> list[str]:
    return [tool.name for tool in servers.tools]
