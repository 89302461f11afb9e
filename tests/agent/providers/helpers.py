"""A provider and the scripted service behind it, in one of the formats."""

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager

from tests.stand_ins.clock import ManualClock
from treadle.agent.messages import ModelRequest, Provider, Reply, ReplyItem, UserMessage
from treadle.agent.providers.http import HttpProvider, RetryPolicy
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.providers.script import ErrorLine, Fault, ScriptedProvider, parse
from treadle.events import TextDelta
from treadle.testing.server import ModelServer

WIRES = ["chat", "openai", "anthropic"]
ONCE = RetryPolicy(tries=1)


def ask(text: str = "hello") -> ModelRequest:
    return ModelRequest(system="be brief", messages=(UserMessage(text=text),))


@asynccontextmanager
async def serving(
    kind: str,
    toml: str,
    *,
    faults: Iterable[Fault | ErrorLine | None] = (),
    idle: float = 5.0,
    retry: RetryPolicy | None = None,
    batch: bool = True,
    clock: ManualClock | None = None,
) -> AsyncIterator[tuple[HttpProvider, ModelServer]]:
    async with ModelServer(parse(toml), faults=faults, batch=batch) as server:
        settings = ModelSettings(idle_timeout=idle, retry=retry or RetryPolicy())
        env = {"TREADLE_BASE_URL": f"{server.url}/v1"}
        provider = resolve(f"{kind}:m", env, settings, clock=clock or ManualClock())
        assert isinstance(provider, HttpProvider)
        try:
            yield provider, server
        finally:
            await provider.aclose()


@asynccontextmanager
async def playing(kind: str, toml: str, clock: ManualClock | None = None) -> AsyncIterator[Provider]:
    """The same, for tests that are about replies and not about wires: also without any wire."""
    if kind == "scripted":
        yield ScriptedProvider(parse(toml), clock=clock or ManualClock())
        return
    async with serving(kind, toml, clock=clock) as (provider, _):
        yield provider


async def collect(provider: Provider, request: ModelRequest | None = None) -> list[ReplyItem]:
    async with aclosing(provider.stream(request or ask())) as items:  # type: ignore[type-var]
        return [item async for item in items]


async def reply(provider: Provider, request: ModelRequest | None = None) -> Reply:
    last = (await collect(provider, request))[-1]
    assert isinstance(last, Reply)
    return last


def text(items: list[ReplyItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextDelta))
