"""What the loop talks to: the chat format over a private socket. The model behind it is started when needed."""

import asyncio
import os
import re
import secrets
import sys
from collections.abc import AsyncGenerator

import msgspec

from treadle.agent.messages import ModelRequest
from treadle.agent.providers.base import ReplyItem
from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.endpoint import Clock, Endpoint, RetryPolicy
from treadle.agent.providers.http import HttpProvider
from treadle.agent.providers.known import Price
from treadle.agent.providers.local.catalog import LocalSettings, Weights
from treadle.agent.providers.local.serve import WITHOUT
from treadle.errors import ConfigError, LocalError, MissingExtra, ProviderError
from treadle.io import files
from treadle.io.files import try_remove
from treadle.io.paths import private_dir
from treadle.io.process.child import Child, start

# One process per model, shared by all who use it: started at the first use, ended after the last.

START_SECONDS = 300.0
REASON = re.compile(r"[\d.]+ E (.+)")
"""An error in the log of llama.cpp; the first one is the cause of the others."""
LONGEST_SOCKET = 107 - len("/llama-4194304-01234567.sock")
"""The longest path of a directory for sockets that the system takes."""
PROGRAM = (sys.executable, "-P", "-m", "treadle.agent.providers.local.serve")
"""The command of the local server. Its settings follow as one more argument; it prints `ready` when it can answer."""


class LocalServer:
    """The process that serves one model, while someone holds it."""

    def __init__(self, weights: Weights, settings: LocalSettings, program: tuple[str, ...] = PROGRAM) -> None:
        self.weights = weights
        self.socket = ""
        """Where it listens: another place at each start, because a server that was killed leaves its socket behind,
        and llama.cpp does not replace it."""
        self.holders = 0
        self._settings = settings
        self._program = program
        self._child: Child | None = None
        self._lock = asyncio.Lock()
        """Around the check and the start: of several first requests one starts the server, the others wait."""

    async def running(self) -> str:
        """The socket of the server, which is started when it is not running, also after it died."""
        async with self._lock:
            if self._child is not None and self._child.exit_code is not None:
                await self._end()
            if self._child is None:
                await self._start()
        return self.socket

    async def _start(self) -> None:
        weights, settings = self.weights, self._settings
        if weights.sha256 and not weights.checked:
            found = await asyncio.to_thread(files.sha256, weights.path)
            if found != weights.sha256:
                raise ConfigError(f"{weights.path} is not the file that was pinned: its SHA-256 is {found}")
        self.socket = os.path.join(_runtime(), f"llama-{os.getpid()}-{secrets.token_hex(4)}.sock")
        wanted = {
            "path": weights.path,
            "socket": self.socket,
            "context": settings.context,
            "threads": settings.cores,
        }
        self._child = child = await start([*self._program, msgspec.json.encode(wanted).decode()])
        try:
            async with asyncio.timeout(START_SECONDS):
                first = await child.stdio.read()
        except TimeoutError:
            await self._end()
            raise ProviderError(f"the local model {weights.name} was not loaded within {START_SECONDS:g} s") from None
        if not first.startswith(b"ready"):
            raise await self._failure(child)

    async def _failure(self, child: Child) -> LocalError | ProviderError:
        code, words = await child.wait(), (await child.last_words()).strip().splitlines()
        await self._end()
        if code == WITHOUT:
            return MissingExtra("a local model", "local")
        found = [match[1] for line in words if (match := REASON.match(line))]
        why = next(iter(found + words[-1:]), f"exit code {code}")
        return ProviderError(f"the local model {self.weights.name} could not be loaded: {why}", provider="local")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop()
            child.close()
            try_remove(self.socket)  # gone, unless it was killed

    async def release(self) -> None:
        self.holders -= 1
        if self.holders <= 0:
            async with self._lock:
                await self._end()


_servers: dict[tuple[int, str, LocalSettings], LocalServer] = {}


def hold(weights: Weights, settings: LocalSettings, program: tuple[str, ...] = PROGRAM) -> LocalServer:
    """The server of this model in the running event loop. The one who holds it calls `release`."""
    loop = asyncio.get_running_loop()
    for key in [key for key, server in _servers.items() if server.holders <= 0]:
        del _servers[key]
    server = _servers.setdefault((id(loop), weights.path, settings), LocalServer(weights, settings, program))
    server.holders += 1
    return server


def _runtime() -> str:
    """A short private directory for sockets, without those left by killed processes."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    place = os.path.join(base, "treadle")
    if not os.path.isabs(base) or len(os.fsencode(place)) > LONGEST_SOCKET:
        place = f"/tmp/treadle-{os.geteuid()}"
    for name in os.listdir(private_dir(place)):
        parts = name.split("-")
        if parts[0] == "llama" and len(parts) == 3 and parts[1].isdigit() and not _alive(int(parts[1])):
            try_remove(os.path.join(place, name))
    return place


def _alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}") or not os.path.exists("/proc/self")


FREE = Price(input=0, output=0, cache_read=0, cache_write=0)
IDLE = 900.0
"""In seconds: on a slow machine a long prompt is read in silence for minutes."""


class LocalProvider:
    name = "local"
    priced = True
    sees = False

    def __init__(
        self,
        weights: Weights,
        settings: LocalSettings,
        *,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self.model = weights.name
        self.context_window: int | None = settings.context
        self._weights = weights
        self._settings = settings
        self._retry = retry or RetryPolicy()
        self._clock = clock
        self._program = program
        self._server: LocalServer | None = None
        self._http: HttpProvider | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        stream = (await self._ready()).stream(request)
        try:
            async for item in stream:
                yield item
        finally:
            await stream.aclose()

    async def _ready(self) -> HttpProvider:
        if self._server is None:
            self._server = hold(self._weights, self._settings, self._program)
        socket = await self._server.running()
        if self._http is None:
            endpoint = Endpoint(
                name=self.name, base_url="http://localhost/v1", socket=socket, idle_timeout=IDLE, retry=self._retry
            )
            self._http = HttpProvider(
                endpoint,
                self.model,
                ChatFormat(llama=True),
                context_window=self.context_window,
                price=FREE,
                clock=self._clock,
            )
        return self._http

    async def models(self) -> list[str]:
        return [self.model]

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None
        if self._server is not None:
            server, self._server = self._server, None
            await server.release()
