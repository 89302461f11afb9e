"""The server: its page's files, its connections, and how it is without a fleet."""

import asyncio
import gzip
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from tests.serve.conftest import StartWeb, Web
from treadle.serve import server
from treadle.serve.listening import Listening
from treadle.serve.server import BoundedConnection, WebServer, make_config, run, served


@pytest.mark.parametrize(
    ("address", "cookie"),
    [
        ("http://127.0.0.1:7474", "treadle_7474"),
        ("https://fleet.example", "__Host-treadle_443"),
        ("https://fleet.example:8443", "__Host-treadle_8443"),
    ],
)
def test_each_server_of_a_machine_has_a_cookie_of_its_own(address: str, cookie: str) -> None:
    gate = WebServer(address=address, names=("fleet.example",)).gate
    assert gate.cookie == cookie and gate.secure == address.startswith("https:")


async def test_the_page_is_ready_when_its_fleet_is_or_there_is_none(alone: Web) -> None:
    async with asyncio.timeout(60):
        while (found := await alone.http.get("/readyz")).json()["why"] == "starting":
            await asyncio.sleep(0.01)
    assert (found.status_code, found.json()["state"]) == (200, "none")
    link = alone.server.site.fleet
    link.problem, link.alone = "the engine cannot be reached", False
    away = await alone.http.get("/readyz")
    assert (away.status_code, away.json()["state"]) == (503, "away")
    assert (await alone.http.get("/login")).status_code == 405, "a code is never in an address"
    assert (await alone.http.get("/metrics")).text.splitlines()[-1] == "treadle_watchers 0"


class Served:
    """Something to serve, which says when it was started and closed."""

    def __init__(self, app: Any, fails: bool = False) -> None:
        self.gate, self.fails = app, fails
        self.seen: list[str] = []

    async def start(self) -> None:
        self.seen.append("started")
        if self.fails:
            raise OSError("no room")

    async def close(self) -> None:
        self.seen.append("closed")


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


hello.message_max = 65536  # type: ignore[attr-defined]


async def test_a_server_that_cannot_start_says_why() -> None:
    listening = Listening(port=0)
    with pytest.raises(OSError, match="no room"):
        async with asyncio.timeout(60), served(Served(hello, fails=True), listening):
            raise AssertionError("it must not get here")
    listening.socket.close()


async def test_a_signal_ends_it_in_order_and_is_told() -> None:
    before = signal.getsignal(signal.SIGTERM)
    given, listening = Served(hello), Listening(port=0)
    ready = asyncio.Event()
    running = asyncio.create_task(run(given, listening, ready))
    async with asyncio.timeout(60):
        await ready.wait()
        assert signal.getsignal(signal.SIGTERM) != before
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert await running == signal.SIGTERM, "the first counts"
    assert given.seen == ["started", "closed"] and signal.getsignal(signal.SIGTERM) == before


async def test_who_sends_a_request_byte_by_byte_is_cut_off(
    serving: StartWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "idle_seconds", 0.2)
    web = await serving(terminals=str(tmp_path))
    reader, writer = await asyncio.open_connection("127.0.0.1", web.listening.port)
    ended = asyncio.create_task(reader.read())
    writer.write(b"GET / HTTP/1.1\r\nhost: ")
    try:
        async with asyncio.timeout(60):
            while not ended.done():
                writer.write(b"x")
                await asyncio.sleep(0.05)
    finally:
        writer.close()
    assert ended.done()


class Slow:
    """Answers a request to `/slow` when it is let go on, and every other at once."""

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.set()
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await self.go_on.wait()
            await send({"type": "websocket.send", "text": "still here"})
        else:
            await (self.go_on.wait() if scope["path"] == "/slow" else asyncio.sleep(0))
            await PlainTextResponse("done")(scope, receive, send)


@asynccontextmanager
async def accepting(given: Slow) -> AsyncIterator[tuple[int, list[BoundedConnection]]]:
    """The port on which it is served, and the server's ends of the connections that are made there."""
    listening, made, state = Listening(port=0), list[BoundedConnection](), ServerState()
    config = make_config(given, listening)  # type: ignore[arg-type]

    def accept() -> BoundedConnection:
        made.append(BoundedConnection(config, state, {}))
        return made[-1]

    async with asyncio.timeout(60):
        server = await asyncio.get_running_loop().create_server(accept, sock=listening.socket)
        async with server:
            yield listening.port, made
            for each in made:
                each.transport.close()


async def test_one_whose_answer_takes_long_or_who_asks_again_is_not_cut_off() -> None:
    given = Slow()
    async with accepting(given) as (port, opened):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def asked(path: str) -> None:
            writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            if path != "/slow":
                assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200")

        for _ in range(2):
            await asked("/")
            assert opened[0].access_log is False, "addresses of answer links are secrets"
            opened[0]._check()
            assert not opened[0].transport.is_closing()
        given.asked.clear()
        await asked("/slow")
        await given.asked.wait()
        for _ in range(3):
            opened[0]._check()
            assert not opened[0].transport.is_closing(), "its answer is being made"
        given.go_on.set()
        await reader.readuntil(b"done")
        opened[0]._check()
        assert opened[0].transport.is_closing()
        assert await reader.read() == b"", "no other request was completed meanwhile"
        writer.close()
        await asyncio.sleep(0)
        timer = opened[0]._checking
        assert timer is not None and timer.cancelled()


async def test_the_server_says_no_word_too_many_and_believes_a_proxy_only_where_there_is_one(tmp_path: Path) -> None:
    for behind in (False, True):
        listening = Listening(port=0, behind_proxy=behind, names=("fleet.example",))
        listening.socket.close()
        config = make_config(Slow(), listening)
        assert config.proxy_headers is behind and config.forwarded_allow_ips == "127.0.0.1"
        assert not config.access_log and not config.server_header and not config.ws_per_message_deflate
        assert config.loaded and config.ssl is None
    certificate = tmp_path / "none.pem"
    listening = Listening(port=0, tls_cert=str(certificate))
    listening.socket.close()
    with pytest.raises(Exception, match="cannot be used"):
        make_config(Slow(), listening)


WEB = Path(server.__file__).parent / "web"


def test_the_page_is_small_and_asks_no_other_host() -> None:
    loaded = server.load()
    assert {"/", "/app.js", "/style.css", "/icon.svg"} <= set(loaded)
    assert sum(len(file.packed) for file in loaded.values()) < 70_000
    assert sum(len(file.plain) for file in loaded.values()) < 190_000
    for file in loaded.values():
        text = file.plain.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(src|href)=.https?:|url\(|@import|from .https?:", text)


def test_no_script_makes_markup_of_a_text() -> None:
    for path in WEB.glob("*.js"):
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", path.read_text()
        )
        assert found == [], path.name


def test_every_module_that_is_imported_is_there() -> None:
    for path in WEB.glob("*.js"):
        for name in re.findall(r"""(?:from|import\()\s*["']\./([\w.]+)["']""", path.read_text()):
            assert (WEB / name).exists(), f"{path.name} imports {name}"


@pytest.mark.parametrize(
    ("headers", "status", "encoding"),
    [
        ({}, 200, None),
        ({"accept-encoding": "br, gzip"}, 200, "gzip"),
        ({"accept-encoding": "br"}, 200, None),
        ({"if-none-match": "TAG"}, 304, None),
        ({"if-none-match": '"other"', "accept-encoding": "gzip"}, 200, "gzip"),
    ],
)
def test_a_file_is_sent_as_it_is_asked_for(headers: dict[str, str], status: int, encoding: str | None) -> None:
    file = server.WebFile("a.css", b"body {}" * 100)
    given = [(name.encode(), value.replace("TAG", file.tag).encode()) for name, value in headers.items()]
    response = file.response(Request({"type": "http", "headers": given}))
    assert response.status_code == status and response.headers.get("content-encoding") == encoding
    assert (response.headers["etag"], response.headers["cache-control"]) == (file.tag, "no-cache")
    assert response.headers["vary"] == "accept-encoding"
    expected = b"" if status == 304 else file.packed if encoding else file.plain
    assert response.body == expected and gzip.decompress(file.packed) == file.plain == b"body {}" * 100
    assert status == 304 or response.headers["content-type"] == "text/css; charset=utf-8"
    assert server.WebFile("a.css", b"other").tag != file.tag
