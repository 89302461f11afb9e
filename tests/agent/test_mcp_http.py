"""A server over HTTP whose every answer the test decides, and which keeps each request."""

import json
import threading
from collections.abc import AsyncIterator, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import mcp, toolbox
from treadle.agent.mcp import McpServers
from treadle.errors import ToolError, TreadleError
from treadle.settings.config import McpServer

STREAM = {"Content-Type": "text/event-stream"}
WELCOME = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}


class Heard(NamedTuple):
    verb: str
    path: str
    headers: dict[str, str]
    message: dict[str, Any]


class Answered(NamedTuple):
    status: int = 200
    body: str = ""
    headers: dict[str, str] = {"Content-Type": "application/json"}
    cut: bool = False
    """Promise more than is sent."""


def result(heard: Heard, **fields: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": heard.message["id"], "result": fields}, indent=1)


def said(heard: Heard, text: str) -> str:
    return json.dumps(
        {"jsonrpc": "2.0", "id": heard.message["id"], "result": {"content": [{"type": "text", "text": text}]}}
    )


class Server:
    """`special` answers what it wants to; the rest is answered as a good server does."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.special: Callable[[Heard], Answered | None] = lambda heard: None
        self.session: str | None = "s-1"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                names = {name.lower(): value for name, value in self.headers.items()}
                heard = Heard(self.command, self.path, names, json.loads(body or "{}"))
                outer.heard.append(heard)
                answer = outer.special(heard) or outer.usual(heard)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                data = answer.body.encode()
                self.send_header("Content-Length", str(len(data) + answer.cut))
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = self.close_connection or answer.cut

            do_POST = do_GET = do_DELETE = _answer

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/mcp"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def usual(self, heard: Heard) -> Answered:
        session = {"Mcp-Session-Id": self.session} if self.session else {}
        match heard.message.get("method"):
            case "initialize":
                return Answered(body=result(heard, **WELCOME), headers={"Content-Type": "application/json", **session})
            case "tools/list":
                return Answered(body=result(heard, tools=[{"name": "one"}]))
            case "tools/call":
                return Answered(body=said(heard, "usual"))
        return Answered(405 if heard.verb == "GET" else 202)

    def of(self, what: str) -> list[Heard]:
        return [heard for heard in self.heard if what in (heard.verb, heard.message.get("method"))]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class Client:
    def __init__(self, place: Path) -> None:
        self.server = Server()
        self.warnings: list[str] = []
        self.changed: list[str] = []
        self.servers = McpServers(cwd=str(place), env={}, warn=self.warnings.append, changed=self.changed.append)
        (place / "work").mkdir()
        self._workspace = Workspace(place / "work", timeout=60.0)

    async def start(self, special: Callable[[Heard], Answered | None] = lambda heard: None) -> None:
        self.server.special = special
        await self.servers.start({"x": McpServer(url=self.server.url, headers={"X-Key": "k"})}, timeout=60)

    async def call(self) -> str:
        tool = next(tool for tool in self.servers.tools if tool.name == "mcp__x__one")
        return await toolbox.run(tool, toolbox.decode(tool, "{}"), self._workspace.context)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    client = Client(tmp_path)
    yield client
    await client.servers.close()
    client.server.close()


def calling(answer: Callable[[Heard], Answered]) -> Callable[[Heard], Answered | None]:
    return lambda heard: answer(heard) if heard.message.get("method") == "tools/call" else None


async def test_each_request_has_the_session_the_revision_and_the_given_headers_and_the_end_is_told(
    client: Client,
) -> None:
    await client.start()
    assert client.warnings == [] and await client.call() == "usual"
    first, *later = client.server.heard
    assert "mcp-session-id" not in first.headers and "mcp-protocol-version" not in first.headers
    assert all(heard.headers["mcp-session-id"] == "s-1" for heard in later)
    assert all(heard.headers["mcp-protocol-version"] == "2025-11-25" for heard in later)
    assert all(heard.headers["x-key"] == "k" for heard in client.server.heard)
    posts = client.server.of("POST")
    assert {heard.headers["accept"] for heard in posts} == {"application/json, text/event-stream"}
    assert {heard.headers["content-type"] for heard in posts} == {"application/json"}
    assert not any("mcp-method" in heard.headers or "mcp-name" in heard.headers for heard in posts)
    await client.servers.close()
    assert [heard.headers["mcp-session-id"] for heard in client.server.of("DELETE")] == ["s-1"]


@pytest.mark.parametrize("cut", [False, True])
async def test_a_stream_that_ends_early_is_taken_up_where_it_was(client: Client, cut: bool) -> None:
    asked: list[Heard] = []

    def special(heard: Heard) -> Answered | None:
        if heard.message.get("method") == "tools/call":
            asked.append(heard)
            return Answered(body="id: 7\nretry: 1\ndata:\n\n", headers=STREAM, cut=cut)
        if heard.verb == "GET" and heard.headers.get("last-event-id") == "7":
            return Answered(body=f"id: 8\ndata: {said(asked[0], 'resumed')}\n\n", headers=STREAM)
        return None

    await client.start(special)
    assert await client.call() == "resumed"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answered(body="data: {}\n\n", headers=STREAM), "broke off its answer"),
        (Answered(body="id: 7\nretry: 1\ndata:\n\n", headers=STREAM), "broke off its answer"),
        (Answered(202), "answered 202 Accepted"),
        (Answered(401, "who are you", {"Content-Type": "text/plain"}), "401 Unauthorized: who are you"),
        (Answered(200, "<html>", {"Content-Type": "text/html"}), "answered 200 OK$"),
        (Answered(body="data: {}\n\n", headers=STREAM, cut=True), "no answer from http://127.0.0.1"),
        (Answered(200, "half", cut=True), "no answer from http://127.0.0.1"),
        (Answered(301, "", {"Location": "http://elsewhere/"}), "301 Moved"),
        (Answered(307, "", {"Location": "http://elsewhere/mcp?key"}), "moved to http://elsewhere/mcp;"),
    ],
)
async def test_what_is_no_answer_is_an_error_that_says_so(client: Client, answer: Answered, told: str) -> None:
    await client.start(calling(lambda heard: answer))
    with pytest.raises(ToolError, match=told):
        await client.call()
    client.server.special = lambda heard: None
    assert await client.call() == "usual"


async def test_a_server_that_forgot_the_session_is_greeted_again(client: Client) -> None:
    def special(heard: Heard) -> Answered | None:
        forgotten = heard.message.get("method") == "tools/call" and heard.headers.get("mcp-session-id") == "s-1"
        return Answered(404) if forgotten else None

    await client.start(special)
    client.server.session = "s-2"
    assert await client.call() == "usual"
    assert ["mcp-session-id" in heard.headers for heard in client.server.of("initialize")] == [False, False]
    assert client.server.of("tools/call")[-1].headers["mcp-session-id"] == "s-2"
    assert [heard.headers["mcp-session-id"] for heard in client.server.of("GET")] == ["s-1", "s-2"]


@pytest.mark.parametrize("direct", [True, False])
async def test_a_server_on_this_machine_is_reached_without_a_proxy_unless_a_person_wants_one(
    client: Client, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    if not direct:
        monkeypatch.setenv("no_proxy", "")
    await client.start()
    assert (client.warnings == []) is direct and (client.server.heard != []) is direct


def moved(status: int, to: str) -> str | None:
    address = mcp.ServerAddress("http://me:key@h.example/mcp?k=1", {})
    response: Any = SimpleNamespace(status=status, headers={"location": to} if to else {})
    return address._url if address._moved(response) else None


def test_a_redirect_is_followed_only_where_it_keeps_the_method_and_the_server() -> None:
    at = "//me:key@h.example/mcp/"
    assert (
        moved(307, "/mcp/") == moved(308, f"http:{at}") == f"http:{at}" and moved(307, f"https:{at}") == f"https:{at}"
    )
    assert moved(307, "") is moved(302, "/mcp/") is moved(200, "/mcp/") is None
    for to in ("http://h.example:81/mcp/", "ftp://me:key@h.example/mcp/"):
        with pytest.raises(
            TreadleError, match="http://h.example/mcp has moved to .*; set that address if you trust it"
        ):
            moved(307, to)


async def test_a_server_that_sends_us_on_and_on_is_given_up(client: Client) -> None:
    await client.start(lambda heard: Answered(308, "", {"Location": heard.path + "x"}))
    assert "redirects in a circle" in client.warnings[0] and len(client.server.heard) == 3
