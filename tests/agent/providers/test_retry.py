from collections.abc import AsyncGenerator

import pytest

from treadle.agent.messages import ReplyItem
from treadle.agent.providers.http import RetryPolicy, SystemClock, retrying
from treadle.errors import ProviderError
from treadle.events import ModelRouted, Retrying, TextDelta, ThinkingDelta
from treadle.testing.clock import ManualClock


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


async def test_a_service_that_is_down_is_waited_for_for_minutes() -> None:
    clock = ManualClock()
    attempts = Attempts([busy() for _ in range(100)])
    with pytest.raises(ProviderError, match="busy"):
        await run(attempts, clock)
    assert 240 < sum(clock.slept) <= 300 and max(clock.slept) <= 30


async def test_a_limit_that_is_whole_again_in_an_hour_is_waited_for_and_does_not_use_up_the_patience() -> None:
    clock = ManualClock()
    items = await run(Attempts([busy(3_200_000), busy(), busy()]), clock)
    assert len(items) == 3 and clock.slept[0] >= 3200


async def test_a_server_of_this_machine_that_is_not_there_is_not_waited_for_for_minutes() -> None:
    gone = busy()
    gone.patience = 10.0
    clock = ManualClock()
    with pytest.raises(ProviderError, match="busy"):
        await run(Attempts([gone] * 100), clock)
    assert sum(clock.slept) <= 10


async def test_what_is_not_retryable_is_raised_at_once() -> None:
    attempts = Attempts([ProviderError("no such model")])
    with pytest.raises(ProviderError, match="no such model"):
        await run(attempts, ManualClock())
    assert attempts.made == 1


async def test_nothing_is_tried_again_once_something_was_said() -> None:
    attempts = Attempts([busy()], TextDelta(text="half"))
    with pytest.raises(ProviderError) as caught:
        await run(attempts, ManualClock())
    assert attempts.made == 1 and caught.value.retryable


async def test_the_name_of_the_model_does_not_count_as_said() -> None:
    items = await run(Attempts([busy()], ModelRouted(model="m")), ManualClock())
    assert [type(item) for item in items] == [ModelRouted, Retrying, ModelRouted]


async def test_a_service_that_names_a_time_is_not_asked_earlier() -> None:
    clock = ManualClock()
    await run(Attempts([busy(7000)]), clock)
    assert clock.slept[0] >= 7.0


async def test_a_wait_beyond_our_patience_is_an_error_now_that_carries_the_time() -> None:
    clock = ManualClock()
    with pytest.raises(ProviderError) as caught:
        await run(Attempts([busy(4_000_000)]), clock)
    assert clock.slept == [] and caught.value.retry_after_ms == 4_000_000
    await run(Attempts([busy(4_000_000)]), clock, RetryPolicy(patience=10_000))
    assert clock.slept[0] >= 4000


async def test_the_system_clock_really_waits() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0.01)
    assert clock.now() - before >= 0.01


@pytest.mark.parametrize(
    ("tried", "passed", "wait", "after", "gives_up"),
    [
        (3, 0, 0, None, False),
        (4, 0, 0, None, True),
        (1, 290, 10, None, False),
        (1, 290, 10.1, None, True),
        (1, 300, 60, 60_000, False),
        (1, 300.1, 60, 60_000, True),
        (1, 0, 3600, 60_000, False),
        (1, 0, 3600.1, 60_000, True),
        (1, 250, 59.9, 60_000, True),
        (1, 0, 301, None, True),
    ],
)
def test_exactly_at_its_limits_a_policy_goes_on(
    tried: int, passed: float, wait: float, after: int | None, gives_up: bool
) -> None:
    assert RetryPolicy(tries=4).gives_up(tried, passed, wait, busy(after)) is gives_up


def test_a_wait_is_spread_and_never_longer_than_the_longest() -> None:
    policy = RetryPolicy()
    for tried, least, most in ((1, 0.25, 0.5), (2, 0.5, 1.0), (100, 15.0, 30.0)):
        assert all(least <= policy.wait(tried, busy()) <= most for _ in range(50))
    assert all(1.0 <= policy.wait(9, busy(1000)) <= 1.1 for _ in range(50))


async def test_blanks_and_thoughts_do_not_count_as_said_and_the_error_is_announced_whole() -> None:
    clock = ManualClock()
    attempts = Attempts([busy(7000)], TextDelta(text=" \n"), ThinkingDelta(text="hm"))
    items = await run(attempts, clock)
    assert attempts.made == 2
    [again] = [item for item in items if isinstance(item, Retrying)]
    assert again.delay_ms == round(clock.slept[0] * 1000) and (again.error.message, again.error.retryable) == (
        "busy",
        True,
    )


async def test_what_was_waited_for_a_reset_is_not_counted() -> None:
    clock = ManualClock()
    await run(Attempts([busy(250_000), busy(250_000), busy()]), clock)
    assert len(clock.slept) == 3
