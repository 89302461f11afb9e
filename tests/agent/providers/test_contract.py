"""What every provider promises, asked of each wire format over a real socket and of the scripted one without."""

import json

import pytest

from tests.agent.providers.helpers import WIRES, collect, playing, reply, text
from tests.stand_ins.clock import ManualClock
from treadle.agent.messages import Reply, ToolCall
from treadle.errors import AuthFailed, ContextOverflow, ProviderError, RateLimited
from treadle.events import Retrying

EVERY = [*WIRES, "scripted"]
pytestmark = pytest.mark.parametrize("kind", EVERY)


async def test_text_comes_in_pieces_and_then_whole(kind: str) -> None:
    async with playing(kind, "reply=[{text='Grüße an alle 🎉 da'}]") as provider:
        items = await collect(provider)
    assert text(items) == "Grüße an alle 🎉 da"
    assert len(items) == 6 and isinstance(items[-1], Reply)
    assert items[-1].message.text == "Grüße an alle 🎉 da" and items[-1].finish == "stop"


async def test_several_calls_arrive_whole_and_in_order(kind: str) -> None:
    toml = """
    [[reply]]
    text = "Looking."
    [[reply.call]]
    name = "grep"
    arguments = { pattern = "ü\\n\\"x\\"", paths = ["a", "b"] }
    [[reply.call]]
    name = "todo"
    id = "mine"
    [[reply.call]]
    name = "bash"
    arguments = "{broken"
    """
    async with playing(kind, toml) as provider:
        last = await reply(provider)
    grep, todo, bash = last.message.calls
    assert (grep.id, grep.name) == ("call_1_0", "grep")
    assert json.loads(grep.arguments) == {"pattern": 'ü\n"x"', "paths": ["a", "b"]}
    assert todo == ToolCall(id="mine", name="todo", arguments="{}")
    assert (bash.name, bash.arguments) == ("bash", "{broken")
    assert last.finish == "tool_calls"


async def test_usage_is_in_buckets_that_do_not_overlap(kind: str) -> None:
    used = "input=10, output=5, cache_read=1000, cache_write=200"
    async with playing(kind, f"reply=[{{text='x', usage={{{used}}}, cost=0.25}}]") as provider:
        usage = (await reply(provider)).usage
    assert usage is not None and usage.cost_usd == 0.25
    buckets = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    assert buckets == (10, 5, 1000, 200)


async def test_usage_that_was_not_reported_is_unknown(kind: str) -> None:
    async with playing(kind, "reply=[{text='x'}]") as provider:
        assert (await reply(provider)).usage is None


async def test_the_price_is_unknown_unless_somebody_says_it(kind: str) -> None:
    async with playing(kind, "reply=[{text='x', usage={input=10, output=1}}]") as provider:
        usage = (await reply(provider)).usage
    assert usage is not None and usage.cost_usd is None


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_a_passing_trouble_is_tried_again(kind: str, status: int) -> None:
    clock = ManualClock()
    toml = f"reply=[{{error={{status={status}, message='later', retry_after=2}}}}, {{text='done'}}]"
    async with playing(kind, toml, clock) as provider:
        items = await collect(provider)
    assert isinstance(items[0], Retrying) and "later" in items[0].error.message
    assert text(items) == "done" and clock.slept[0] >= 2.0


async def test_a_lasting_trouble_is_an_error_with_the_services_words_and_code(kind: str) -> None:
    clock = ManualClock()
    toml = "reply=[{times='always', error={status=429, message='too many', retry_after=20}}]"
    async with playing(kind, toml, clock) as provider:
        with pytest.raises(RateLimited, match="429: too many") as caught:
            await collect(provider)
    assert (caught.value.status, caught.value.retry_after_ms) == (429, 20_000)
    assert 200 < sum(clock.slept) < 301, "as long as the patience of the settings, and no longer"


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (401, "bad key", AuthFailed),
        (400, "prompt is too long: 9 tokens > 5 maximum", ContextOverflow),
        (404, "no such model", ProviderError),
    ],
)
async def test_our_own_mistake_is_reported_at_once(
    kind: str, status: int, message: str, error: type[ProviderError]
) -> None:
    clock = ManualClock()
    async with playing(kind, f"reply=[{{error={{status={status}, message='{message}'}}}}]", clock) as provider:
        with pytest.raises(error, match=message) as caught:
            await collect(provider)
    assert clock.slept == [] and not caught.value.retryable


async def test_a_reply_that_is_cut_off_after_it_began_is_a_retryable_error(kind: str) -> None:
    async with playing(kind, "reply=[{text='a b c d e f g h', fault='cut'}]") as provider:
        with pytest.raises(ProviderError) as caught:
            await collect(provider)
    assert caught.value.retryable
