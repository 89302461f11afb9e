"""Staying inside the window: prune old tool results first, compact at 80 %, keep pairs together."""

from pathlib import Path

import pytest

from treadle.agent.context import (
    DEFAULT_WINDOW,
    EXCERPT,
    HANDED_OVER,
    HANDOFF_MARK,
    REQUEST_MARK,
    SUMMARY_MARK,
    Context,
    estimate,
    excerpts,
)
from treadle.agent.messages import (
    AssistantMessage,
    ChatMessage,
    Image,
    ModelRequest,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from treadle.agent.transcript import PRUNED, Transcript
from treadle.errors import ContextOverflow, ProviderError, StorageError
from treadle.events import ContextCompacted, ContextHandoff, ContextPruned, Event, Usage, Warned


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


async def test_below_the_marks_nothing_happens(setting: Setting) -> None:
    setting.context.add(UserMessage(text="hi"), "t")
    await setting.context.fit(setting.summarise)
    assert setting.events == [] and len(setting.context.messages) == 1


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


async def test_at_eighty_percent_the_old_part_becomes_a_summary(setting: Setting) -> None:
    for number in range(40):
        setting.context.add(UserMessage(text=f"{number} " + "y" * 900), "t")
    await setting.context.fit(setting.summarise)
    assert isinstance(setting.events[-1], ContextCompacted)
    assert setting.context.messages[0] == UserMessage(text=SUMMARY_MARK + "what happened")
    assert setting.context.messages[-1] == UserMessage(text="39 " + "y" * 900)
    assert setting.context.tokens() < 0.8 * 10_000


async def test_a_call_and_its_result_stay_on_the_same_side_of_the_cut(setting: Setting) -> None:
    for number in range(30):
        setting.tool_step(number, 30)
        setting.context.add(AssistantMessage(text="z" * 1_200), "t")
    await setting.context.compact(setting.summarise)
    kept = setting.context.messages[1:]
    assert not isinstance(kept[0], ToolResult)


@pytest.mark.parametrize("protect", range(50, 1000, 50))
async def test_wherever_the_cut_falls_the_kept_part_begins_with_no_result(tmp_path: Path, protect: int) -> None:
    setting = Setting(tmp_path, window=10_000, protect=protect)
    for number in range(20):
        setting.tool_step(number, 400)
    await setting.context.compact(setting.summarise)
    kept = setting.context.messages[1:]
    assert not kept or not isinstance(kept[0], ToolResult)
    assert Transcript.read(setting.transcript.header.id).view() == setting.context.messages


async def test_what_was_pruned_is_taken_off_what_the_provider_counted(setting: Setting) -> None:
    for number in range(8):
        setting.tool_step(number, 4_000)
    setting.context.counted(Usage(input_tokens=9_000, output_tokens=900))
    await setting.context.fit(setting.summarise)
    [pruned] = setting.events
    assert isinstance(pruned, ContextPruned) and pruned.tokens_before == 9_900
    each = estimate(ToolResult(call="c", name="bash", text="x" * 4_000)) - estimate(UserMessage(text=PRUNED))
    assert pruned.tokens_after == setting.context.tokens() == 9_900 - pruned.messages_pruned * each


async def test_pruning_that_gains_little_is_left(setting: Setting) -> None:
    setting.tool_step(0, 1_000)
    setting.context.add(UserMessage(text="y" * 30_000), "t")
    await setting.context.fit(setting.summarise)
    assert setting.events == [] and setting.context.messages[1].text == "x" * 1_000


async def test_an_estimate_is_not_taken_for_a_count(setting: Setting) -> None:
    setting.context.add(UserMessage(text="a" * 400), "t")
    setting.context.counted(Usage(input_tokens=5_000, source="estimate"))
    assert setting.context.tokens() == estimate(UserMessage(text="a" * 400))


async def test_what_the_provider_counted_beats_the_estimate(setting: Setting) -> None:
    setting.context.add(UserMessage(text="short"), "t")
    setting.context.counted(Usage(input_tokens=5_000, cache_read_tokens=1_000, output_tokens=500))
    assert setting.context.tokens() == 6_500
    setting.context.add(UserMessage(text="a" * 400), "t")
    assert setting.context.tokens() == 6_500 + estimate(UserMessage(text="a" * 400))


async def test_a_summary_that_cannot_be_had_is_a_warning(setting: Setting) -> None:
    async def fail(messages: tuple[ChatMessage, ...]) -> str:
        raise ProviderError("down")

    for number in range(40):
        setting.context.add(UserMessage(text=f"{number} " + "y" * 900), "t")
    await setting.context.fit(fail)
    assert isinstance(setting.events[-1], Warned) and setting.events[-1].code == "compact_failed"
    assert len(setting.context.messages) == 40


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


async def test_when_it_is_compacted_can_be_set(tmp_path: Path) -> None:
    setting = Setting(tmp_path, window=10_000, protect=2_000, compact_at=0.3)
    for number in range(16):
        setting.context.add(UserMessage(text=f"{number} " + "y" * 900), "t")
    await setting.context.fit(setting.summarise)
    assert [type(event) for event in setting.events] == [ContextCompacted]


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


async def test_a_smaller_window_protects_less(tmp_path: Path) -> None:
    setting = Setting(tmp_path, window=200_000, protect=40_000)
    for number in range(12):
        setting.tool_step(number, 16_000)
    setting.context.resize(16_000)
    await setting.context.fit(setting.summarise)
    assert setting.context.tokens() < 16_000


def user(tokens: int) -> UserMessage:
    """One of exactly this size."""
    return UserMessage(text="y" * 4 * (tokens - 4))


@pytest.mark.parametrize(("counted", "pruned"), [(6_999, 0), (7_000, 1)])
async def test_results_are_pruned_from_exactly_seven_eighths_of_the_mark_on(
    setting: Setting, counted: int, pruned: int
) -> None:
    for number in range(8):
        setting.tool_step(number, 4_000)
    setting.context.counted(Usage(input_tokens=counted))
    await setting.context.fit(setting.summarise)
    assert len(setting.events) == pruned


@pytest.mark.parametrize(("counted", "summaries"), [(7_999, 0), (8_000, 1)])
async def test_it_is_compacted_from_exactly_the_mark_on(setting: Setting, counted: int, summaries: int) -> None:
    for _ in range(40):
        setting.context.add(user(200), "t")
    setting.context.counted(Usage(input_tokens=counted))
    await setting.context.fit(setting.summarise)
    assert len(setting.summarised) == summaries
    if summaries:
        [compacted] = setting.events
        assert isinstance(compacted, ContextCompacted) and not compacted.asked
        assert (compacted.tokens_before, compacted.tokens_after) == (8_000, setting.context.tokens())


async def test_a_failed_summary_is_tried_again_a_twentieth_of_the_window_later_or_with_another_model(
    setting: Setting,
) -> None:
    asked = 0

    async def empty(messages: tuple[ChatMessage, ...]) -> str:
        nonlocal asked
        asked += 1
        return " \n"

    for _ in range(40):
        setting.context.add(user(200), "t")
    for counted, times in ((8_000, 1), (8_499, 1), (8_500, 2), (8_999, 2)):
        setting.context.counted(Usage(input_tokens=counted))
        await setting.context.fit(empty)
        assert asked == times
    warned = setting.events[-1]
    assert isinstance(warned, Warned) and "came back empty" in warned.message and warned.code == "compact_failed"
    setting.context.resize(10_000)
    await setting.context.fit(empty)
    assert asked == 3


@pytest.mark.parametrize(("gain", "pruned"), [(999, 0), (1_000, 1)])
async def test_only_what_gains_a_tenth_of_the_window_is_pruned(setting: Setting, gain: int, pruned: int) -> None:
    setting.tool_step(0, 4 * (gain + estimate(UserMessage(text=PRUNED)) - 4))
    setting.context.add(user(2_000), "t")
    setting.context.counted(Usage(input_tokens=7_000))
    await setting.context.fit(setting.summarise)
    assert len(setting.events) == pruned, "what lies before the protected part, which is exactly full, may go"


async def test_a_short_result_is_pruned_only_where_it_shows_an_image(setting: Setting) -> None:
    picture = Image(name="i.png", media_type="image/png", size=1, width=4000, height=4000)
    sizes = {"short": 2 * len(PRUNED), "long": 2 * len(PRUNED) + 1, "big": 8_000}
    for name, size in sizes.items():
        setting.context.add(ToolResult(call=name, name="bash", text="x" * size), "t")
    setting.context.add(ToolResult(call="image", name="bash", text="", images=(picture,)), "t")
    setting.context.add(user(2_000), "t")
    setting.context.counted(Usage(input_tokens=7_000))
    await setting.context.fit(setting.summarise)
    texts = {m.call: m.text == PRUNED for m in setting.context.messages if isinstance(m, ToolResult)}
    assert texts == {"short": False, "long": True, "big": True, "image": True}


@pytest.mark.parametrize(("before", "compacted"), [(3, False), (4, True)])
async def test_a_few_messages_are_not_worth_a_summary(setting: Setting, before: int, compacted: bool) -> None:
    assert not await setting.context.compact(setting.summarise, everything=True), "there is nothing yet"
    assert setting.context.summary == ""
    for _ in range(before):
        setting.context.add(UserMessage(text="hi"), "t")
    setting.context.add(user(2_000), "t")
    assert await setting.context.compact(setting.summarise) is compacted
    assert len(setting.context.messages) == (2 if compacted else before + 1)
    assert setting.context.summary == ("what happened" if compacted else "hi")
    assert await setting.context.compact(setting.summarise, everything=True)
    [message] = setting.context.messages
    last = setting.events[-1]
    assert message.text == SUMMARY_MARK + "what happened" and isinstance(last, ContextCompacted) and last.asked


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        (ProviderError("this model takes no images"), True),
        (ProviderError("this model takes no images", retryable=True), False),
        (ContextOverflow("too many images"), False),
        (ProviderError("unknown parameter"), False),
    ],
)
def test_only_a_refusal_of_new_images_is_tried_again_without_them(
    setting: Setting, error: ProviderError, tried: bool
) -> None:
    name = setting.transcript.keep_image(b"data", "png")
    shown = Image(name=name, media_type="image/png", size=4, width=1, height=1)
    setting.context.add(UserMessage(text="see", images=(shown,)), "t")
    request = ModelRequest(system="", messages=(), images=setting.context.images())
    assert list(request.images.values()) == [b"data"]
    assert setting.context.refused_images(request, error) is tried
    assert bool(setting.context.images()) is not tried
    assert [event.code for event in setting.events if isinstance(event, Warned)] == (["image_refused"] if tried else [])
    setting.context.resize(None)
    assert setting.context.images() and setting.context.window == DEFAULT_WINDOW
    setting.context.took_images(request)
    assert not setting.context.refused_images(request, ProviderError("no images")), "it took them before"


def test_calls_without_ids_or_with_used_ones_get_their_own(setting: Setting) -> None:
    setting.tool_step(1, 10)
    ids = ("c1", "", "new", "new")
    message = AssistantMessage(calls=tuple(ToolCall(id=one, name="bash", arguments="{}") for one in ids))
    fresh = [call.id for call in setting.context.with_fresh_ids(message).calls]
    assert fresh[2] == "new" and len(set(fresh)) == 4 and not {"c1", ""} & set(fresh)
    again = Context(setting.transcript, setting.events.append)
    assert again.with_fresh_ids(message).calls[0].id != "c1", "also those of before the session was opened again"


def test_a_count_of_nothing_is_no_count(setting: Setting) -> None:
    setting.context.add(user(100), "t")
    setting.context.counted(Usage())
    assert setting.context.counted_tokens is None and setting.context.tokens() == 100
    setting.context.counted(Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=4, output_tokens=8))
    assert setting.context.counted_tokens == setting.context.tokens() == 15
    setting.context.reload()
    assert setting.context.counted_tokens is None and setting.context.tokens() == 100


def test_what_a_model_thought_and_called_counts_too() -> None:
    call = ToolCall(id="c", name="bash", arguments="x" * 80)
    said = AssistantMessage(text="é" * 10, calls=(call,), thinking=(Thinking(text="z" * 40),))
    assert estimate(said) == (20 + 4 + 80 + 16 + 40) // 4 + 4


@pytest.mark.parametrize(
    ("request_size", "rest", "handed"),
    [(8_000, 4_000, True), (8_004, 4_000, False), (4, 3_995, False), (4, 3_996, True)],
)
async def test_how_much_is_handed_over_is_bounded_on_both_sides(
    setting: Setting, request_size: int, rest: int, handed: bool
) -> None:
    setting.context.add(AssistantMessage(text="y" * 4 * (rest - 4)), "t")
    setting.context.add(UserMessage(text="r" * request_size), "t")
    assert await setting.context.hand_off(setting.summarise) is handed


def test_excerpts_have_the_beginning_and_as_much_of_the_end_as_fits() -> None:
    messages = [UserMessage(text=letter) for letter in "abc"]
    assert excerpts(messages, 29) == "person: a\nperson: b\nperson: c"
    assert excerpts(messages, 28) == "person: a\n[...]\nperson: c"
    call = ToolCall(id="c", name="bash", arguments="x" * 201)
    said: list[ChatMessage] = [
        AssistantMessage(text="I look", calls=(call,)),
        ToolResult(call="c", name="bash", text="out"),
    ]
    assert excerpts(said, 1000) == f"agent: I look (bash {'x' * 200})\nresult of bash: out"


@pytest.mark.parametrize(("mark", "most"), [("", EXCERPT), (SUMMARY_MARK, 5 * EXCERPT), (HANDOFF_MARK, 5 * EXCERPT)])
def test_an_excerpt_is_cut_with_a_mark_only_where_something_is_missing(mark: str, most: int) -> None:
    text = mark + "x" * (most - len(mark))
    assert excerpts([UserMessage(text=text)], 9_999) == f"person: {text}"
    assert excerpts([UserMessage(text=text + "x")], 9_999) == f"person: {text} [...]"


async def test_a_summary_is_no_request_and_one_too_long_is_cut(setting: Setting) -> None:
    async def long(messages: tuple[ChatMessage, ...]) -> str:
        return "z" * 100_000

    setting.context.add(UserMessage(text="the task"), "t")
    setting.context.add(UserMessage(text=SUMMARY_MARK + "so far"), "t")
    setting.context.add(AssistantMessage(text="y" * 20_000), "t")
    assert await setting.context.hand_off(long)
    [message] = setting.context.messages
    room = HANDED_OVER - len("the task") // 4
    assert message.text == HANDOFF_MARK + "z" * 4 * room + REQUEST_MARK + "the task"
