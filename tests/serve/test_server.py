"""The server without a fleet."""

import asyncio
import os
import signal
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse

from tests.serve.conftest import Web
from treadle.serve.api import terminals
from treadle.serve.listening import Listening
from treadle.serve.server import WebServer, run, served


async def test_without_a_fleet_it_says_so_and_terminals_work(alone: Web) -> None:
    response = await alone.http.get("/api/v1/orders")
    assert response.status_code == 503 and response.json()["code"] == "no_fleet"
    assert "treadle fleet up" in response.json()["detail"] and response.headers["retry-after"]
    assert await alone.get("/terminals") == []
    assert (await alone.http.get("/readyz")).json()["state"] in ("none", "away")


def test_only_what_signs_in_and_the_page_itself_need_no_token() -> None:
    public = WebServer(address="https://fleet.example", names=("fleet.example",))._public
    assert all(map(public, ("/", "/login", "/healthz", "/readyz", "/ca", "/ca.crt", "/a/x", terminals.STREAM)))
    assert not any(map(public, ("/api/v1/orders", "/metrics", "/openapi.json", "/socket", "/login/x", "/ab", "/a")))


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


async def test_health_and_figures_are_told_to_who_may_see_them(alone: Web) -> None:
    assert (await alone.http.get("/healthz")).text == "ok\n"
    figures = await alone.http.get("/metrics")
    assert figures.status_code == 200 and figures.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert (await alone.http.get("/openapi.json")).json()["openapi"].startswith("3.")
    for path in ("/metrics", "/openapi.json", "/api/v1/terminals"):
        assert (await alone.http.get(path, headers={"authorization": ""})).status_code == 401


async def test_the_page_is_ready_when_its_fleet_is_or_there_is_none(alone: Web) -> None:
    async with asyncio.timeout(60):
        while (found := await alone.http.get("/readyz")).json()["why"] == "starting":
            await asyncio.sleep(0.01)
    assert (found.status_code, found.json()["state"]) == (200, "none")
    alone.server.site.fleet.problem = "the engine cannot be reached"
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


async def test_a_server_answers_inside_its_block_and_is_closed_with_its_socket_after_it() -> None:
    given, listening = Served(hello), Listening(port=0)
    async with asyncio.timeout(60), served(given, listening) as serving:
        assert given.seen == ["started"] and not serving.done()
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.get(listening.address)
            assert answer.text == "hello" and "server" not in answer.headers
    assert given.seen == ["started", "closed"] and listening.socket.fileno() == -1 and serving.done()


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
        assert await running == signal.SIGTERM
    assert given.seen == ["started", "closed"] and signal.getsignal(signal.SIGTERM) == before
