"""A gateway before the scripted model, and a client that asks as an agent would."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from treadle.agent.providers.known import Price, cost
from treadle.errors import BudgetExceeded
from treadle.events import Retrying, Usage
from treadle.gateway.governor import AccountGovernor
from treadle.gateway.recording import CallReplay
from treadle.gateway.server import ModelGateway, Upstream, placeholder
from treadle.gateway.spending import Spending
from treadle.io.http import HttpClient, HttpError
from treadle.session import Limits
from treadle.testing.server import ModelServer

KEY = "the-real-key-0123456789"
TOKEN = placeholder(0)
NONE = Limits()
PRICE = Price(input=1, output=10, cache_read=0.1)
PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
    "gemini-stream": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


def asking(family: str, *, stream: bool, said: str = "hi", **more: Any) -> bytes:
    if family.startswith("gemini"):
        return msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": said}]}], **more})
    given = {"input": said} if family == "responses" else {"messages": [{"role": "user", "content": said}]}
    return msgspec.json.encode({"model": "m", "stream": stream, **given, **more})


class Reports:
    """What a gateway tells the session of its agent."""

    def __init__(self) -> None:
        self.used: list[Usage] = []
        self.notes: list[tuple[str, str]] = []
        self.waits: list[str] = []
        self.refused: list[BudgetExceeded] = []

    def wire_used(self, usage: Usage) -> None:
        self.used.append(usage)

    def wire_noted(self, message: str, code: str) -> None:
        self.notes.append((code, message))

    def wire_waits(self, wait: Retrying) -> None:
        self.waits.append(wait.error.message)

    def wire_refused(self, error: BudgetExceeded) -> None:
        self.refused.append(error)


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    broken: bool = False


async def ask(url: str, path: str, body: bytes = b"", key: str = TOKEN, **headers: str) -> Answered:
    """Everything that comes, and whether it broke off."""
    client = HttpClient({}, connect_seconds=10, idle_seconds=60, direct=True)
    status, fields, parts = 0, {}, []
    sent = {"x-api-key": key, "content-type": "application/json", **headers}
    try:
        async with client.request("POST" if body else "GET", f"{url}{path}", body, sent) as response:
            status, fields = response.status, response.headers
            async for chunk in response.raw():
                parts.append(chunk)
        return Answered(status, fields, b"".join(parts))
    except HttpError:
        return Answered(status, fields, b"".join(parts), broken=True)
    finally:
        await client.aclose()


class Wiring(NamedTuple):
    gateway: ModelGateway
    reports: Reports

    @property
    def url(self) -> str:
        return self.gateway.url


@asynccontextmanager
async def before(
    server: ModelServer | str,
    place: Path,
    limits: Limits = NONE,
    *,
    priced: bool = True,
    apart: bool = False,
    replay: CallReplay | None = None,
) -> AsyncIterator[Wiring]:
    url = server if isinstance(server, str) else server.url
    spending = Spending(limits, lambda usage: cost(usage, PRICE if priced else None))
    governor = AccountGovernor("service", KEY, place=str(place))
    upstream = Upstream(base_url=url, secrets={TOKEN: KEY})
    gateway = ModelGateway(upstream, spending, governor, apart=apart, replay=replay)
    reports = Reports()
    gateway.report_to(reports)
    await gateway.start()
    try:
        yield Wiring(gateway, reports)
    finally:
        gateway.close()
