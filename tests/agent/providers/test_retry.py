from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from tests.agent.providers.helpers import ask, collect
from tests.stand_ins.clock import ManualClock
from treadle.agent.messages import ReplyItem
from treadle.agent.providers.http import RetryPolicy, retrying
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.providers.script import ErrorLine, parse
from treadle.errors import ProviderError, RateLimited
from treadle.events import Retrying, TextDelta
from treadle.testing.server import ModelServer


class Attempts:
    """Each try says `items`, then raises the next of `errors`, or ends when there is none left."""

    def __init__(self, errors: list[ProviderError], *items: ReplyItem) -> None:
        self.errors = errors
        self.items = items
        self.made = 0

    async def __call__(self) -> AsyncGenerator[ReplyItem, None]:
        self.made += 1
        for item in self.items:
            yield item
        if self.errors:
            raise self.errors.pop(0)


async def run(attempts: Attempts, clock: ManualClock, policy: RetryPolicy | None = None) -> list[ReplyItem]:
    return [item async for item in retrying(attempts, policy or RetryPolicy(), clock)]


def busy(retry_after_ms: int | None = None) -> ProviderError:
    return ProviderError("busy", retryable=True, retry_after_ms=retry_after_ms)


async def test_waits_grow_and_each_is_announced_before_it_is_waited() -> None:
    clock = ManualClock()
    items = await run(Attempts([busy(), busy(), busy()]), clock)
    assert [type(item) for item in items] == [Retrying] * 3
    assert [item.attempt for item in items if isinstance(item, Retrying)] == [1, 2, 3]
    assert 0.25 <= clock.slept[0] <= 0.5 <= clock.slept[1] <= 1.0 <= clock.slept[2] <= 2.0


async def test_as_many_tries_as_the_settings_say_and_no_more() -> None:
    attempts = Attempts([busy() for _ in range(9)])
    with pytest.raises(ProviderError, match="busy"):
        await run(attempts, ManualClock(), RetryPolicy(tries=4))
    assert attempts.made == 4


async def test_a_limit_that_is_whole_again_in_an_hour_is_waited_for_and_does_not_use_up_the_patience() -> None:
    clock = ManualClock()
    items = await run(Attempts([busy(3_200_000), busy(), busy()]), clock)
    assert len(items) == 3 and clock.slept[0] >= 3200


async def test_nothing_is_tried_again_once_something_was_said() -> None:
    attempts = Attempts([busy()], TextDelta(text="half"))
    with pytest.raises(ProviderError) as caught:
        await run(attempts, ManualClock())
    assert attempts.made == 1 and caught.value.retryable


async def test_a_wait_beyond_our_patience_is_an_error_now_that_carries_the_time() -> None:
    clock = ManualClock()
    with pytest.raises(ProviderError) as caught:
        await run(Attempts([busy(4_000_000)]), clock)
    assert clock.slept == [] and caught.value.retry_after_ms == 4_000_000
    await run(Attempts([busy(4_000_000)]), clock, RetryPolicy(patience=10_000))
    assert clock.slept[0] >= 4000


async def test_a_limit_that_one_run_was_told_holds_for_the_next_of_its_account() -> None:
    limited = ErrorLine(status=429, message="slow down", retry_after=100)
    async with ModelServer(parse("reply=[{text='done'}]"), faults=[limited]) as server:
        env = {"TREADLE_BASE_URL": f"{server.url}/v1", "TREADLE_API_KEY": "one-key"}
        refused, waiting = (resolve("chat:m", env, ModelSettings(retry=RetryPolicy(tries=1))) for _ in range(2))
        with pytest.raises(RateLimited):
            await collect(refused)
        async with aclosing(waiting.stream(ask())) as items:  # type: ignore[type-var]
            item = await anext(items)
        assert isinstance(item, Retrying) and item.error.message.startswith("waiting for the model until ")
        assert len(server.asked) == 1
        await refused.aclose()
