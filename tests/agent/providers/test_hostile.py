"""A service that stalls, lies, breaks off and floods: a clear error or a whole reply, never a hang or a traceback."""

import asyncio
import resource

import pytest

from tests.agent.providers.helpers import ONCE, WIRES, collect, serving, text
from tests.stand_ins.clock import ManualClock
from treadle.agent.messages import Reply
from treadle.agent.providers.names import resolve
from treadle.agent.providers.script import Fault, parse
from treadle.errors import ProviderError
from treadle.events import Retrying
from treadle.testing.server import ModelServer

pytestmark = pytest.mark.parametrize("kind", WIRES)
LONG = "reply=[{text='eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf', usage={input=1, output=1}}]"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("cut", "broke"),
        ("early_end", "before the end"),
        ("garbage", "cannot be read"),
        ("stall", "sent nothing for 2 s"),
        ("short_length", "before the end|cannot be read"),
        ("long_length", "broke"),
        ("reset", "broke"),
        ("hang", "sent nothing for 2 s"),
        ("html", "web page.*base URL"),
    ],
)
async def test_each_fault_is_a_clear_error(kind: str, fault: Fault, says: str) -> None:
    async with serving(kind, LONG, faults=[fault], idle=2 if fault in ("stall", "hang") else 60, retry=ONCE) as (
        provider,
        _,
    ):
        with pytest.raises(ProviderError, match=says) as caught:
            await collect(provider)
        assert caught.value.retryable == (fault != "html")
        assert caught.value.provider == kind
        assert text(await collect(provider)).startswith("eins"), "the provider works again afterwards"


@pytest.mark.parametrize(("fault", "times"), [("hang", 1), ("cut", 2)])
async def test_what_breaks_before_anything_was_said_is_tried_again(kind: str, fault: Fault, times: int) -> None:
    quick = "reply=[{call=[{name='bash', arguments={command='ls'}}]}]"
    async with serving(kind, quick, faults=[fault] * times, idle=2 if fault == "hang" else 60) as (provider, server):
        items = await collect(provider)
    assert [type(item) for item in items] == [*[Retrying] * times, Reply]
    assert len(server.asked) == times + 1


@pytest.mark.parametrize("fault", ["slow", "split"])
async def test_slow_bytes_and_split_characters_lose_nothing(kind: str, fault: Fault) -> None:
    async with serving(kind, "reply=[{text='Grüße 🎉 中文'}]", faults=[fault], idle=60) as (provider, _):
        assert text(await collect(provider)) == "Grüße 🎉 中文"


@pytest.mark.slow
async def test_an_event_of_64_mb_is_read_with_bounded_memory(kind: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serving(kind, LONG, faults=["giant"]) as (provider, _):
        assert text(await collect(provider)).endswith("zwölf")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 400 * 1024, f"{grown} KiB more"


async def test_a_reply_without_end_is_stopped(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.agent.providers.http.LARGEST_REPLY", 100_000)
    async with serving(kind, "reply=[{text='word ', repeat=20000}]", retry=ONCE) as (provider, _):
        with pytest.raises(ProviderError, match="larger than 100000 bytes") as caught:
            await collect(provider)
    assert not caught.value.retryable


async def test_cancelling_the_reader_closes_the_connection(kind: str) -> None:
    async with serving(kind, LONG, faults=["stall"], idle=60) as (provider, server):
        task = asyncio.create_task(collect(provider))
        async with asyncio.timeout(60):
            await server.arrived(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await server.all_gone()


async def test_nobody_listening_is_tried_again_and_then_said(kind: str) -> None:
    async with ModelServer(parse("reply=[{}]")) as server:
        url = server.url
    provider = resolve(f"{kind}:m", {"TREADLE_BASE_URL": url + "/v1"}, clock=ManualClock())
    with pytest.raises(ProviderError, match=f"cannot reach {kind} at {url}"):
        await collect(provider)
    await provider.aclose()
