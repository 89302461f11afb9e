from contextlib import aclosing

import pytest

from tests.stand_ins.clock import ManualClock
from treadle.agent.messages import ModelRequest, ReplyItem, UserMessage
from treadle.agent.providers.script import ScriptedProvider, parse
from treadle.errors import ConfigError, ProviderError
from treadle.events import TextDelta

HELLO = ModelRequest(system="", messages=(UserMessage(text="hello"),))


async def play(provider: ScriptedProvider) -> list[ReplyItem]:
    async with aclosing(provider.stream(HELLO)) as items:
        return [item async for item in items]


def scripted(toml: str, clock: ManualClock | None = None) -> ScriptedProvider:
    return ScriptedProvider(parse(toml), clock=clock or ManualClock())


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
