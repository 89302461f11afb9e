"""A server of the page and the HTTP interface in the test's own process, on loopback, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.conftest import start_node as start_node
from treadle.fleet.engine import places
from treadle.serve import background
from treadle.serve.listening import Listening
from treadle.serve.server import WebServer, run
from treadle.serve.tokens import Right

WAIT = 60.0


class Web:
    """One running server, and requests to it as a device with a token."""

    def __init__(self, server: WebServer, listening: Listening, task: "asyncio.Task[None]") -> None:
        self.server = server
        self.listening = listening
        self.task = task
        self.address = listening.address
        _, self.token = server.site.tokens.make("test", "all")
        self.http = httpx2.AsyncClient(
            base_url=self.address, headers={"authorization": f"Bearer {self.token}"}, timeout=WAIT, trust_env=False
        )

    async def get(self, path: str, **options: Any) -> Any:
        response = await self.http.get(f"/api/v1{path}", **options)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        response = await self.http.post(f"/api/v1{path}", json=body if body is not None else {})
        assert response.status_code == status, response.text
        return response.json()

    def headers(self, right: Right = "all") -> dict[str, str]:
        return {"authorization": f"Bearer {self.server.site.tokens.make('another', right)[1]}"}

    async def until_up(self) -> None:
        async with asyncio.timeout(WAIT):
            while self.server.site.fleet.state()["state"] != "up":
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        await self.http.aclose()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Follower:
    """A tab's socket: what it was sent, by topic."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[dict[str, Any]] = []

    async def do(self, **message: Any) -> None:
        await self.socket.send(msgspec.json.encode(message).decode())

    async def sub(self, topic: str, **params: Any) -> None:
        await self.do(do="sub", topic=topic, params=params)

    async def until(self, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next message that is wanted; all that comes is kept."""
        async with asyncio.timeout(WAIT):
            while True:
                message = msgspec.json.decode(await self.socket.recv())
                self.seen.append(message)
                if wanted(message):
                    return dict(message)


async def start_web(**options: Any) -> Web:
    listening = Listening(**{"port": 0, **options.pop("listening", {})})
    server = WebServer(address=listening.address, names=listening.names, **options)
    ready = asyncio.Event()
    task = asyncio.create_task(run(server, listening, ready))
    async with asyncio.timeout(WAIT):
        await ready.wait()
    return Web(server, listening, task)


StartWeb = Callable[..., Awaitable[Web]]
Follow = Callable[..., Awaitable[Follower]]


@pytest.fixture
async def serving(nothing_left: None) -> AsyncIterator[StartWeb]:
    """Servers; each ends with the test."""
    running: list[Web] = []

    async def start(**options: Any) -> Web:
        running.append(await start_web(**options))
        return running[-1]

    yield start
    for each in running:
        await each.stop()


@pytest.fixture
async def alone(serving: StartWeb, tmp_path: Path) -> Web:
    """A server without a fleet."""
    return await serving(terminals=str(tmp_path))


@pytest.fixture
async def web(fleet: places.Fleet, serving: StartWeb, tmp_path: Path) -> Web:
    """A server with a fleet."""
    made = await serving(terminals=str(tmp_path))
    await made.until_up()
    return made


@pytest.fixture
async def follow() -> AsyncIterator[Follow]:
    async with AsyncExitStack() as stack:

        async def start(web: Web, *, token: str = "", **options: Any) -> Follower:
            headers = {"authorization": f"Bearer {token or web.token}"}
            url = web.address.replace("http", "ws") + "/socket"
            options.setdefault("max_size", None)
            socket = await stack.enter_async_context(
                connect(url, additional_headers=headers, proxy=None, open_timeout=WAIT, **options)
            )
            return Follower(socket)

        yield start


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[background.ServerNote]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    yield background.start()
    background.stop()


async def until_listed(web: Web, query: str, count: int) -> dict[str, Any]:
    """The list, as soon as what was just changed is in the index."""
    async with asyncio.timeout(WAIT):
        while len((found := await web.get(f"/orders?{query}"))["orders"]) != count:
            await asyncio.sleep(0.02)
    return dict(found)
