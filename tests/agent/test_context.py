"""Staying inside the window: prune old tool results first, compact at 80 %, keep pairs together."""

from pathlib import Path

import pytest

from treadle.agent.context import (
    HANDED_OVER,
    HANDOFF_MARK,
    REQUEST_MARK,
    Context,
    estimate,
)
from treadle.agent.messages import (
    AssistantMessage,
    ChatMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from treadle.agent.transcript import PRUNED, Transcript
from treadle.errors import ProviderError, StorageError
from treadle.events import ContextCompacted, ContextHandoff, ContextPruned, Event


class Setting:
    def __init__(self, tmp_path: Path, window: int, protect: int, **more: float) -> None:
        self.events: list[Event] = []
        self.transcript = Transcript.create(cwd=str(tmp_path), model="m")
        self.context = Context(self.transcript, self.events.append, window=window, protect=protect, **more)
        self.summarised: list[tuple[ChatMessage, ...]] = []

    async def summarise(self, messages: tuple[ChatMessage, ...]) -> str:
        self.summarised.append(messages)
        return "what happened"

    def tool_step(self, number: int, size: int) -> None:
        call = ToolCall(id=f"c{number}", name="bash", arguments="{}")
        self.context.add(AssistantMessage(calls=(call,)), "t")
        self.context.add(ToolResult(call=call.id, name="bash", text="x" * size), "t")


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path, window=10_000, protect=2_000)


async def test_old_tool_results_go_first_and_the_last_part_is_protected(setting: Setting) -> None:
    setting.context.add(UserMessage(text="the task"), "t")
    for number in range(8):
        setting.tool_step(number, 4_000)
    await setting.context.fit(setting.summarise)
    pruned = setting.events[0]
    assert isinstance(pruned, ContextPruned) and pruned.tokens_after < pruned.tokens_before
    results = [message.text for message in setting.context.messages if isinstance(message, ToolResult)]
    assert results[0] == PRUNED and results[-1] == "x" * 4_000
    assert results.count(PRUNED) == pruned.messages_pruned
    assert setting.context.messages[0] == UserMessage(text="the task")
    assert setting.summarised == []


@pytest.mark.parametrize("protect", range(50, 1000, 50))
async def test_wherever_the_cut_falls_the_kept_part_begins_with_no_result(tmp_path: Path, protect: int) -> None:
    setting = Setting(tmp_path, window=10_000, protect=protect)
    for number in range(20):
        setting.tool_step(number, 400)
    await setting.context.compact(setting.summarise)
    kept = setting.context.messages[1:]
    assert not kept or not isinstance(kept[0], ToolResult)
    assert Transcript.read(setting.transcript.header.id).view() == setting.context.messages


async def test_a_summary_that_could_not_be_had_is_not_asked_for_at_every_step(setting: Setting) -> None:
    asked = 0

    async def fail(messages: tuple[ChatMessage, ...]) -> str:
        nonlocal asked
        asked += 1
        raise ProviderError("down")

    for number in range(40):
        setting.context.add(UserMessage(text=f"{number} " + "y" * 900), "t")
    for _ in range(5):
        await setting.context.fit(fail)
    assert asked == 1
    setting.context.add(UserMessage(text="y" * 4_000), "t")
    await setting.context.fit(setting.summarise)
    assert isinstance(setting.events[-1], ContextCompacted)


async def test_a_conversation_is_handed_over_with_its_summary_and_the_last_request(setting: Setting) -> None:
    setting.context.add(UserMessage(text="the first task"), "t")
    for number in range(30):
        setting.tool_step(number, 4_000)
    setting.context.add(UserMessage(text="now the second"), "t")
    setting.tool_step(31, 4_000)
    assert await setting.context.hand_off(setting.summarise)
    [[story]] = setting.summarised
    assert "the first task" in story.text and "[...]" in story.text and estimate(story) <= HANDED_OVER
    [message] = setting.context.messages
    assert message.text == HANDOFF_MARK + "what happened" + REQUEST_MARK + "now the second"
    assert [type(event) for event in setting.events] == [ContextHandoff]
    assert Transcript.read(setting.transcript.header.id).view() == [message]


async def test_without_a_summary_excerpts_are_handed_over_and_again_keep_the_request(setting: Setting) -> None:
    async def fail(messages: tuple[ChatMessage, ...]) -> str:
        raise ProviderError("down")

    setting.context.add(UserMessage(text="the task"), "t")
    for number in range(2):
        for step in range(20):
            setting.tool_step(number * 100 + step, 4_000)
        assert await setting.context.hand_off(fail)
        [message] = setting.context.messages
        assert message.text.startswith(HANDOFF_MARK) and message.text.endswith(REQUEST_MARK + "the task")
        assert "result of bash: xxx" in message.text and estimate(message) < 1.1 * HANDED_OVER


async def test_what_cannot_be_made_smaller_is_not_handed_over(setting: Setting) -> None:
    setting.context.add(UserMessage(text="short"), "t")
    assert not await setting.context.hand_off(setting.summarise)
    setting.context.add(UserMessage(text="z" * 50_000), "t")
    assert not await setting.context.hand_off(setting.summarise)
    assert setting.events == [] and len(setting.context.messages) == 2


async def test_resuming_sees_what_the_model_last_saw(setting: Setting) -> None:
    for number in range(8):
        setting.tool_step(number, 4_000)
    await setting.context.fit(setting.summarise)
    for number in range(40):
        setting.context.add(UserMessage(text=f"{number} " + "y" * 900), "t")
    await setting.context.fit(setting.summarise)
    assert setting.transcript.view() == setting.context.messages
    assert Transcript.read(setting.transcript.header.id).view() == setting.context.messages


async def test_a_disk_that_is_full_for_a_while_leaves_a_conversation_that_goes_on(setting: Setting) -> None:
    context = setting.context
    context.add(UserMessage(text="go"), "t")
    context.add(AssistantMessage(calls=(ToolCall(id="c1", name="bash", arguments="{}"),)), "t")
    history = Path(setting.transcript.directory, "history.jsonl")
    away = history.rename(history.with_suffix(".away"))
    history.mkdir()  # nothing can be appended to this
    with pytest.raises(StorageError):
        context.close_dangling("t")
    history.rmdir()
    away.rename(history)
    context.add(UserMessage(text="again"), "t")
    context.close_dangling("t")
    assert [type(message) for message in context.messages[1:]] == [AssistantMessage, ToolResult, UserMessage]
    assert Transcript.read(setting.transcript.header.id).view() == context.messages
