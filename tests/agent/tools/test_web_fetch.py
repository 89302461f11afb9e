"""Every test crosses a real socket, to a server on loopback."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest

from tests.agent.tools.workspace import Workspace
from tests.certificates import certificate
from treadle.agent.tools import web_fetch
from treadle.agent.tools.base import ALLOW_PRIVATE
from treadle.agent.tools.web_fetch import WebFetch, WebFetchArgs
from treadle.errors import ToolError

LOOPBACK = ip_address("127.0.0.1")


def http(body: bytes, kind: str = "text/html", status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Server:
    """Answers each path with given bytes; remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.requests: list[dict[str, str]] = []
        self.names: list[str | None] = []
        self.hold: set[str] = set()
        self.port = 0

    async def start(self, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            path = first.split()[1]
            self.requests.append({line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines if line})
            writer.write(self.answers.get(path, http(b"none", status="404 Not Found")))
            await writer.drain()
            if path in self.hold:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await server.start()
    yield server
    listening.close()


async def lookup(host: str, port: int) -> list[str]:
    known = {
        "pinned.example": ["127.0.0.1"], "xn--bcher-kva.example": ["127.0.0.1"],
        "private.example": ["10.0.0.1"], "mixed.example": ["127.0.0.1", "127.0.0.2"],
    }  # fmt: skip
    return known.get(host) or await web_fetch.system_lookup(host, port)


def local(tls: ssl.SSLContext | None = None) -> WebFetch:
    """The one address of the test server is allowed, as if it were the public internet; no other is."""
    return WebFetch(lambda address: address == LOOPBACK, lookup, tls)


@pytest.fixture
def fetch(workspace: Workspace) -> Callable[[str], Awaitable[str]]:
    return lambda url: local().run(WebFetchArgs(url=url), workspace.context)


async def test_html_becomes_text_and_text_stays(server: Server, fetch: Callable[[str], Awaitable[str]]) -> None:
    server.answers["/page"] = http(b"<h1>Hello</h1><p>See <a href='/x'>this</a>.</p>", "text/html; charset=utf-8")
    server.answers["/data"] = http(b'{"a": "<b>"}', "application/json")
    base = f"http://127.0.0.1:{server.port}"
    assert await fetch(f"{base}/page") == f"# Hello\n\nSee [this]({base}/x)."
    assert await fetch(f"{base}/data") == '{"a": "<b>"}'


async def test_the_name_that_was_asked_for_is_sent_to_the_address_that_was_checked(
    server: Server, fetch: Callable[[str], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # which would look the name up again
    server.answers["/"] = http(b"ok", "text/plain")
    assert await fetch(f"http://pinned.example:{server.port}/") == "ok"
    assert server.requests[0]["host"] == f"pinned.example:{server.port}"
    assert server.requests[0]["user-agent"].startswith("treadle/")


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1",
        "169.254.169.254", "[fe80::1]", "192.168.0.1",
    ],
)  # fmt: skip
async def test_private_addresses_are_refused_however_they_are_written(
    server: Server, workspace: Workspace, host: str
) -> None:
    server.answers["/"] = http(b"secret", "text/plain")
    with pytest.raises(ToolError, match="not a public address|cannot resolve"):
        await workspace.run("web_fetch", url=f"http://{host}:{server.port}/")
    assert not server.requests


@pytest.mark.parametrize("host", ["private.example", "mixed.example"])
async def test_a_name_with_any_private_address_is_refused(
    server: Server, fetch: Callable[[str], Awaitable[str]], host: str
) -> None:
    with pytest.raises(ToolError, match="not a public address"):
        await fetch(f"http://{host}:{server.port}/")
    assert not server.requests


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:{port}/x", "http://169.254.169.254/latest", "http://private.example/", "//[::1]/x"]
)
async def test_a_redirect_into_a_private_network_is_refused(
    server: Server, fetch: Callable[[str], Awaitable[str]], target: str
) -> None:
    location = target.format(port=server.port)
    server.answers["/"] = http(b"", status="302 Found", Location=location)
    with pytest.raises(ToolError, match="not a public address"):
        await fetch(f"http://127.0.0.1:{server.port}/")
    assert len(server.requests) == 1


async def test_a_redirect_to_where_rules_forbid_to_go_is_refused(server: Server, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, refused=lambda url: "no" if "evil" in url else "")
    workspace.context.state[ALLOW_PRIVATE] = True
    server.answers["/"] = http(b"", status="302 Found", Location="http://evil.example/")
    with pytest.raises(ToolError, match="redirects to http://evil.example/: no"):
        await workspace.run("web_fetch", url=f"http://127.0.0.1:{server.port}/")


async def test_a_redirect_without_end_or_to_a_file_is_refused(
    server: Server, fetch: Callable[[str], Awaitable[str]]
) -> None:
    server.answers["/loop"] = http(b"", status="302 Found", Location="/loop")
    server.answers["/file"] = http(b"", status="302 Found", Location="file:///etc/passwd")
    for path, says in (("loop", "redirects more than 5 times"), ("file", "only http and https")):
        with pytest.raises(ToolError, match=says):
            await fetch(f"http://127.0.0.1:{server.port}/{path}")


async def test_too_much_is_cut_also_when_it_was_packed(server: Server, fetch: Callable[[str], Awaitable[str]]) -> None:
    size = web_fetch.MAX_BYTES + 1000
    server.answers["/plain"] = http(b"x" * size, "text/plain")
    server.answers["/bomb"] = http(gzip.compress(b"\n" + b"y" * 50_000_000), "text/plain", Content_Encoding="gzip")
    server.answers["/packed"] = http(gzip.compress(b"small"), "text/plain", Content_Encoding="gzip")
    server.answers["/odd"] = http(b"x", "text/plain", Content_Encoding="br")
    base = f"http://127.0.0.1:{server.port}"
    assert (await fetch(f"{base}/plain")).endswith("x\n[cut after 5,242,880 bytes]")
    assert len(await fetch(f"{base}/bomb")) < size
    assert await fetch(f"{base}/packed") == "small"
    with pytest.raises(ToolError, match="packed as br"):
        await fetch(f"{base}/odd")


async def test_what_is_no_text_is_refused(server: Server, fetch: Callable[[str], Awaitable[str]]) -> None:
    server.answers["/png"] = http(b"\x89PNG\r\n\x1a\nxxxx", "text/html")
    server.answers["/zip"] = http(b"abc", "application/zip")
    base = f"http://127.0.0.1:{server.port}"
    with pytest.raises(ToolError, match="PNG image"):
        await fetch(f"{base}/png")
    with pytest.raises(ToolError, match="application/zip"):
        await fetch(f"{base}/zip")


async def test_a_server_that_stalls_or_breaks_off_is_a_clear_error(server: Server, workspace: Workspace) -> None:
    context = msgspec.structs.replace(workspace.context, timeout=0.3)
    server.answers["/stall"] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
    server.hold.add("/stall")
    server.answers["/cut"] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
    server.answers["/garbage"] = b"\0\1\2 not HTTP at all\r\n\r\n"
    base = f"http://127.0.0.1:{server.port}"
    with pytest.raises(ToolError, match="did not answer within 0.3 s"):
        await local().run(WebFetchArgs(url=f"{base}/stall"), context)
    for path in ("cut", "garbage"):
        with pytest.raises(ToolError, match="cannot fetch"):
            await local().run(WebFetchArgs(url=f"{base}/{path}"), workspace.context)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/",
        "file:///etc/passwd",
        "x",
        "",
        "http://",
        "http://u:p@h/",
        "http://h:99999/",
        "http://[x/",
        "http://h:0/",
    ],
)
async def test_what_is_no_web_address_is_refused(fetch: Callable[[str], Awaitable[str]], url: str) -> None:
    with pytest.raises(ToolError):
        await fetch(url)


async def test_over_tls_the_certificate_must_be_for_the_name_and_not_for_the_address(
    workspace: Workspace, tmp_path: Path
) -> None:
    pem = certificate(tmp_path, "pinned.example")
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(pem)
    server = Server()
    theirs.sni_callback = lambda connection, name, context: server.names.append(name)
    server.answers["/"] = http(b"sealed", "text/plain")
    listening = await server.start(theirs)
    ours = ssl.create_default_context(cafile=str(pem))
    try:
        url = f"https://pinned.example:{server.port}/"
        assert await local(ours).run(WebFetchArgs(url=url), workspace.context) == "sealed"
        assert server.names == ["pinned.example"]
        with pytest.raises(ToolError, match="CERTIFICATE_VERIFY_FAILED|certificate"):
            await local(ours).run(WebFetchArgs(url=f"https://127.0.0.1:{server.port}/"), workspace.context)
    finally:
        listening.close()
