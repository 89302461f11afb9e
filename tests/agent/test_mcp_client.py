"""A server that is a small script on its standard streams; each line that it was sent is kept in a file."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.tools.workspace import Workspace
from tests.waiting import until
from treadle.agent import mcp, toolbox
from treadle.agent.mcp import HEARD, McpClient, McpServers, SessionGone
from treadle.errors import LineTooLong, PeerClosed, RemoteProtocolError, ToolError, TreadleError
from treadle.io.rpc import CallFailed
from treadle.settings.config import McpServer
from treadle.wire.common.rpc import Returned, RpcCall, RpcMessage, RpcNotice, RpcRefused

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


async def test_tools_that_change_are_listed_again(started: Started) -> None:
    await started.start("""
def heard(message):
    if message.get("method") == "tools/call":
        names[:] = ["two"]
        say(method="notifications/tools/list_changed")
        said(message, "changed")
""")
    assert await started.call("one") == "changed"
    await until(lambda: started.changed == ["x"])
    assert [tool.name for tool in started.servers.tools] == ["mcp__x__two"]


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


async def test_an_answer_without_a_result_is_an_error_at_once(started: Started) -> None:
    await started.start("""
def heard(message):
    if message.get("method") == "tools/call":
        say(id=message["id"])
""")
    with pytest.raises(ToolError, match="its answer cannot be read"):
        await started.call("one")


async def test_pages_of_tools_are_put_together(started: Started) -> None:
    await started.start("""
def tools(message, *names):
    more = message["params"].get("cursor")
    page = {"tools": [{"name": more or "first"}]}
    say(id=message["id"], result=page if more else {**page, "nextCursor": "second"})
""")
    assert [tool.name for tool in started.servers.tools] == ["mcp__x__first", "mcp__x__second"]


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


class Said:
    """The other end of a client in this process: each call is answered as the test says, at once."""

    hear: HEARD
    lost: Callable[[TreadleError], None]
    revision: str | None = "of before"

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.heard: list[RpcMessage] = []
        self.order: list[str] = []

    async def say(self, message: RpcMessage) -> None:
        self.heard.append(message)
        if isinstance(message, RpcCall):
            answers = self.answers[message.method.replace("/", "_")]
            answer = answers.pop(0) if isinstance(answers, list) else answers
            if isinstance(answer, TreadleError) and not isinstance(answer, RemoteProtocolError):
                raise answer
            if isinstance(answer, RemoteProtocolError):
                self.hear([answer])
            elif isinstance(answer, int):
                self.hear([RpcRefused(id=message.id, code=answer, message="refused")])
            elif answer is not None:
                self.hear([Returned(id=message.id, result=answer)])

    async def greeted(self) -> None:
        self.order.append(f"greeted with {self.revision}")

    async def close(self) -> None:
        self.order.append("closed")

    def methods(self) -> list[str]:
        return [message.method for message in self.heard if isinstance(message, RpcCall | RpcNotice)]


WELCOME = {"protocolVersion": "2025-06-18"}


def client_of(said: Said) -> tuple[McpClient, list[str]]:
    told: list[str] = []
    client = McpClient(said, root="/a/b", changed=lambda: told.append("changed"), ended=lambda: told.append("ended"))
    return client, told


async def test_a_greeting_is_over_when_both_know_the_revision() -> None:
    said = Said(initialize=WELCOME)
    client, _ = client_of(said)
    await client.greet()
    assert said.methods() == ["initialize", "notifications/initialized"]
    assert said.order == ["greeted with 2025-06-18"]
    await client.close()
    assert said.order[1:] == ["closed"]


@pytest.mark.parametrize(("code", "goes_on"), [(-32601, True), (-32022, True), (-32000, False)])
async def test_a_greeting_that_is_refused_is_an_error_unless_the_server_needs_none(code: int, goes_on: bool) -> None:
    said = Said(initialize=code, server_discover={}, tools_list={})
    client, _ = client_of(said)
    if not goes_on:
        with pytest.raises(CallFailed, match="refused"):
            await client.greet()
        assert said.revision is None
        return
    await client.greet()
    assert said.revision == "2026-07-28" and said.order == [] and said.methods() == ["initialize", "server/discover"]
    await client.tools()
    told = [message.params["_meta"] for message in said.heard[1:] if isinstance(message, RpcCall)]
    names = {f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
    assert [set(one) for one in told] == [names, names]


async def test_no_more_pages_are_asked_for_than_there_are_or_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MOST_TOOLS", 2)
    pages: list[Any] = [{"tools": [{"name": f"t{at}"}], "nextCursor": f"c{at}"} for at in range(9)]
    said = Said(tools_list=pages)
    client, _ = client_of(said)
    assert [tool.name for tool in await client.tools()] == ["t0", "t1", "t2"]
    assert [message.params for message in said.heard if isinstance(message, RpcCall)] == [
        {},
        {"cursor": "c0"},
        {"cursor": "c1"},
    ]


async def test_a_call_in_a_session_that_is_gone_is_made_once_more_after_a_greeting() -> None:
    said = Said(initialize=WELCOME, tools_call=[SessionGone("gone"), {"content": [{"type": "text", "text": "x"}]}])
    client, _ = client_of(said)
    assert (await client.call("t", {"a": 1})).content[0].text == "x"
    assert said.methods() == ["tools/call", "initialize", "notifications/initialized", "tools/call"]
    assert said.heard[-1].params == {"name": "t", "arguments": {"a": 1}}  # type: ignore[union-attr]
    said.answers["tools_call"] = {"content": 7}
    with pytest.raises(RemoteProtocolError, match="its answer cannot be read: Expected `array`"):
        await client.call("t", {})


async def test_an_answer_that_is_too_long_fails_the_calls_that_wait_and_no_later_one() -> None:
    said = Said(tools_call=[LineTooLong("longer than a line may be"), {}])
    client, told = client_of(said)
    with pytest.raises(LineTooLong, match="longer than"):
        await asyncio.wait_for(client.call("t", {}), 10)
    assert (await client.call("t", {})).content == [] and told == []


async def test_an_answer_that_cannot_be_read_is_an_error_of_its_call_alone() -> None:
    said = Said(tools_call=None)
    client, told = client_of(said)
    first, second = (asyncio.create_task(client.call("t", {})) for _ in range(2))
    await asyncio.sleep(0)
    numbers = [message.id for message in said.heard if isinstance(message, RpcCall)]
    said.hear([RemoteProtocolError("stray"), RemoteProtocolError("odd", details={"id": None})])
    said.hear([RemoteProtocolError("no result", details={"id": numbers[0]})])
    with pytest.raises(CallFailed, match="its answer cannot be read: no result"):
        await asyncio.wait_for(first, 10)
    assert not second.done()
    said.lost(PeerClosed("it has ended"))
    with pytest.raises(PeerClosed):
        await asyncio.wait_for(second, 10)
    assert told == ["ended"]


async def test_a_call_that_is_given_up_is_withdrawn_before_the_end_is_told() -> None:
    said = Said(tools_call=None)
    client, _ = client_of(said)
    task = asyncio.create_task(client.call("t", {}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await client.close()
    assert said.heard[-1] == RpcNotice(method="notifications/cancelled", params={"requestId": 1})
    assert said.order == ["closed"] and client._telling == set()


async def test_what_a_server_asks_and_says_is_answered_and_heard_by_name() -> None:
    said = Said()
    client, told = client_of(said)
    said.hear([RpcNotice(method="notifications/message"), RpcNotice(method="notifications/tools/list_changed")])
    said.hear([RpcCall(id=name, method=name) for name in ("ping", "roots/list", "x" * 99)])
    await until(lambda: len(said.heard) == 3)
    ping, roots, unknown = said.heard
    assert told == ["changed"] and ping == Returned(id="ping", result={})
    assert roots == Returned(id="roots/list", result={"roots": [{"uri": "file:///a/b", "name": "b"}]})
    assert isinstance(unknown, RpcRefused) and unknown.message == f"this client has no {'x' * 60}"
    await client.close()
