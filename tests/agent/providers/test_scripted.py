from contextlib import aclosing

import pytest

from treadle.agent.messages import ModelRequest, Reply, ReplyItem, UserMessage
from treadle.agent.providers.script import ScriptedProvider, parse
from treadle.errors import ConfigError, ProviderError
from treadle.events import Retrying, TextDelta, ThinkingDelta
from treadle.testing.clock import ManualClock

HELLO = ModelRequest(system="", messages=(UserMessage(text="hello"),))


async def play(provider: ScriptedProvider) -> list[ReplyItem]:
    async with aclosing(provider.stream(HELLO)) as items:
        return [item async for item in items]


def scripted(toml: str, clock: ManualClock | None = None) -> ScriptedProvider:
    return ScriptedProvider(parse(toml), clock=clock or ManualClock())


async def test_a_reply_streams_its_pieces_and_ends_whole() -> None:
    items = await play(scripted("reply=[{text='Good day to you', thinking='be nice', usage={input=5, output=4}}]"))
    assert [item.text for item in items if isinstance(item, ThinkingDelta)] == ["be ", "nice"]
    assert [item.text for item in items if isinstance(item, TextDelta)] == ["Good ", "day ", "to ", "you"]
    last = items[-1]
    assert isinstance(last, Reply) and last.finish == "stop" and last.usage is not None
    assert (last.message.text, last.message.thinking[0].text, last.usage.input_tokens) == (
        "Good day to you",
        "be nice",
        5,
    )


async def test_delays_are_waited_for_on_the_clock() -> None:
    clock = ManualClock()
    await play(scripted("reply=[{text='a b', delay=2.0, pace=0.5}]", clock))
    assert clock.slept == [2.0, 0.5, 0.5]


async def test_a_retryable_error_is_tried_again_with_the_next_reply() -> None:
    clock = ManualClock()
    toml = "reply=[{error={status=429, message='slow down', retry_after=3}}, {text='done'}]"
    items = await play(scripted(toml, clock))
    assert isinstance(items[0], Retrying) and items[0].error.code == "rate_limited"
    assert 3.0 <= clock.slept[0] <= 3.3
    assert isinstance(items[-1], Reply) and items[-1].message.text == "done"


async def test_a_cut_reply_is_a_retryable_error_after_its_first_half() -> None:
    provider = scripted("reply=[{text='a b c d', fault='cut'}]")
    seen: list[ReplyItem] = []
    with pytest.raises(ProviderError, match="cut off") as caught:
        async with aclosing(provider.stream(HELLO)) as items:
            async for item in items:
                seen.append(item)
    assert caught.value.retryable and [item.text for item in seen if isinstance(item, TextDelta)] == ["a ", "b "]


async def test_a_fault_of_the_wire_needs_a_wire() -> None:
    with pytest.raises(ConfigError, match="treadle.testing.server"):
        await play(scripted("reply=[{fault='stall'}]"))


async def test_it_lists_the_model_it_plays() -> None:
    provider = scripted("model='m'\ncontext_window=1000\nreply=[{}]")
    assert (await provider.models(), provider.model, provider.context_window) == (["m"], "m", 1000)
    await provider.aclose()


async def test_a_reply_without_thoughts_and_usage_has_none_and_waits_for_nothing() -> None:
    clock = ManualClock()
    items = await play(scripted("model='m'\nreply=[{text='a', call=[{name='x'}]}]", clock))
    last = items[-1]
    assert isinstance(last, Reply) and last.usage is None and last.message.thinking == () and clock.slept == []
    assert (last.message.model, last.message.calls[0].id, last.finish) == ("m", "call_1_0", "tool_calls")


async def test_a_cost_makes_it_priced_and_how_long_it_took_is_told() -> None:
    free, paid = scripted("reply=[{}]"), scripted("reply=[{}, {text='a', cost=0.0}]")
    assert not free.priced and paid.priced and free.sees
    await play(paid)
    last = (await play(paid))[-1]
    assert isinstance(last, Reply) and last.usage is not None and (last.usage.duration_ms or 0) < 60_000
    assert last.usage.duration_ms is not None and last.usage.cost_usd == 0.0


async def test_an_error_has_its_status_and_words() -> None:
    with pytest.raises(ProviderError, match="^scripted answered 400: no$") as caught:
        await play(scripted("reply=[{error={status=400, message='no'}}]"))
    assert caught.value.status == 400
