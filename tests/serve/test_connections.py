"""Connections that are used up slowly are closed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState
from websockets.asyncio.client import connect

from tests.serve.conftest import StartWeb
from treadle.serve.listening import Listening
from treadle.serve.server import BoundedConnection, SignalledServer, make_config


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


async def test_what_has_become_a_websocket_may_be_quiet() -> None:
    given = Slow()
    async with accepting(given) as (port, opened):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as socket:
            for _ in range(3):
                opened[0]._check()
            given.go_on.set()
            assert await socket.recv() == "still here"


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


def test_of_two_signals_the_first_is_told_and_the_handlers_of_before_come_back() -> None:
    server = SignalledServer(uvicorn.Config(Slow()))
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with server.capture_signals():
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == [server.handle_exit] * 2
        assert not server.should_exit
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert (server.ended_by, server.should_exit) == (signal.SIGTERM, True)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
