"""What the loop talks to: the chat format over a private socket. The model behind it is started when needed."""

from collections.abc import AsyncGenerator

from treadle.agent.messages import ModelRequest
from treadle.agent.providers.base import ReplyItem
from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.endpoint import Endpoint
from treadle.agent.providers.http import HttpProvider
from treadle.agent.providers.local.catalog import Weights
from treadle.agent.providers.local.server import PROGRAM, LocalServer, hold
from treadle.agent.providers.local.settings import LocalSettings
from treadle.agent.providers.prices import Price
from treadle.agent.providers.retry import Clock, RetryPolicy

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
