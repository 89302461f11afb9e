"""Keeps a conversation inside the model's window: count, prune old tool results, then compact; and if the provider says
that it still does not fit, hand over to a fresh conversation.

History on disk is never rewritten: pruning and compacting are records that change what the model sees.
"""

import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from treadle.agent.messages import AssistantMessage, ChatMessage, ModelRequest, ToolResult, UserMessage
from treadle.agent.tools import images
from treadle.agent.transcript import PRUNED, Compacted, MessageRecord, Pruned, Transcript, prune, well_formed
from treadle.errors import ContextOverflow, ProviderError, StorageError, TreadleError
from treadle.events import ContextCompacted, ContextHandoff, ContextPruned, Event, Usage, Warned

DEFAULT_WINDOW = 128_000
"""Assumed when neither the provider nor the settings say."""
COMPACT_AT = 0.8
PRUNE_AT = 7 / 8
"""Old tool results are pruned at this fraction of the size at which the conversation is compacted."""
PROTECT = 40_000
WORTH_PRUNING = 20_000
"""Tokens that pruning must free; a tenth of the window where that is less."""
FEWEST_TO_COMPACT = 4
HANDED_OVER = 4_000
"""The most tokens of a conversation that are handed over: they fit into any window that an agent can work in."""

SUMMARY_PROMPT = """\
Summarise the conversation so far for a colleague who takes over this very moment and will not see it.
Keep: what the person asked for, in their words where it matters; decisions and why; files read and changed, with
paths; commands and results that still matter; errors met and how they were solved; what remains, next step first.
Leave out pleasantries and anything already obsolete. Answer with the summary only."""
SUMMARY_MARK = "[Summary of the conversation so far]\n"
HANDOFF_MARK = "[The conversation did not fit any more and goes on here. What happened so far]\n"
EXCERPT = 600
"""How many characters of each message are handed over."""
REQUEST_MARK = "\n\n[What was asked for last]\n"

Summarise = Callable[[tuple[ChatMessage, ...]], Awaitable[str]]


def estimate(message: ChatMessage) -> int:
    """Tokens by the rule of thumb of four bytes each, for what no provider has counted yet."""
    match message:
        case AssistantMessage():
            size = len(message.text.encode()) + sum(len(call.name) + len(call.arguments) + 16 for call in message.calls)
            size += sum(len(block.text) for block in message.thinking)
        case _:
            size = len(message.text.encode()) + 4 * sum(map(images.tokens, message.images))
    return size // 4 + 4


class Context:
    """The messages that go to the model, and about how many tokens they are."""

    def __init__(
        self,
        transcript: Transcript,
        emit: Callable[[Event], None],
        *,
        window: int | None = None,
        protect: int = PROTECT,
        compact_at: float = COMPACT_AT,
    ) -> None:
        self.transcript = transcript
        self.window = window or DEFAULT_WINDOW
        self.messages = transcript.view()
        self._emit = emit
        self._most_protected = protect
        self._compact_at = compact_at
        self._compact_again = 0
        """After a summary failed, it is tried again at this many tokens."""
        self._calls = set(_call_ids(self.messages)) | {""}
        self._taken: set[str] = set()
        self._refused: set[str] = set()
        """Names of images that the model's service accepted or refused."""
        self._counted: tuple[int, int] | None = None
        """(number of messages, tokens) as of the last reply for which the provider reported usage."""

    @property
    def _protect(self) -> int:
        """How many tokens at the end are neither pruned nor summarised."""
        return min(self._most_protected, self.window // 3)

    def resize(self, window: int | None) -> None:
        """Another model, whose window may be smaller, reads the conversation from now on."""
        self.window = window or DEFAULT_WINDOW
        self._compact_again = 0
        self._taken, self._refused = set(), set()

    # Images

    def images(self) -> dict[str, bytes]:
        """The images that the model is shown with the next request."""
        found = {}
        for image in images.chosen(self.messages):
            if image.name not in self._refused:
                with suppress(StorageError):  # someone removed the file: the model is told that it cannot be shown
                    found[image.name] = self.transcript.image(image)
        return found

    def took_images(self, request: ModelRequest) -> None:
        self._taken.update(request.images)

    def refused_images(self, request: ModelRequest, error: ProviderError) -> bool:
        """Whether a request failed because of its newest images, so that it is worth trying without them."""
        new = request.images.keys() - self._taken
        if (
            error.retryable
            or isinstance(error, ContextOverflow)
            or not re.search(images.ABOUT_IMAGES, str(error))
            or not new
        ):
            return False
        self._refused |= new
        self._emit(Warned(message=f"an image was rejected and left out: {error}", code="image_refused"))
        return True

    def add(self, message: ChatMessage, turn: str) -> None:
        self.transcript.append(MessageRecord(message=message, turn=turn))
        self.messages.append(message)
        self._calls.update(_call_ids([message]))

    def with_fresh_ids(self, message: AssistantMessage) -> AssistantMessage:
        """Some servers give tool calls no ids, or the same ones again; everything here tells calls apart by them."""
        here: set[str] = set()
        calls = []
        for call in message.calls:
            if call.id in self._calls or call.id in here:
                call = msgspec.structs.replace(call, id=f"call_{os.urandom(8).hex()}")
            here.add(call.id)
            calls.append(call)
        return msgspec.structs.replace(message, calls=tuple(calls))

    def counted(self, usage: Usage) -> None:
        """The provider has counted everything up to the reply that was just added."""
        total = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens
        if total and usage.source == "provider":
            self._counted = (len(self.messages), total)

    @property
    def counted_tokens(self) -> int | None:
        """How many tokens the last call took, as the provider counted; None when it has not."""
        return self._counted[1] if self._counted else None

    def tokens(self) -> int:
        start, known = self._counted or (0, 0)
        return known + sum(map(estimate, self.messages[start:]))

    def close_dangling(self, turn: str) -> None:
        """Answer the calls that an interruption left open, so that the next request is well formed."""
        last = len(self.messages) - 1
        while last > 0 and isinstance(self.messages[last], ToolResult):
            last -= 1
        left = self.messages[max(last, 0) :]
        formed = well_formed(left)
        # In memory first: a full disk must not cost the session what it can still hold here.
        self.messages[max(last, 0) :] = formed
        self.transcript.append(*(MessageRecord(message=added, turn=turn) for added in formed[len(left) :]))

    def reload(self) -> None:
        """Read the messages again after clearing or rewinding."""
        self.messages = self.transcript.view()
        self._calls.update(_call_ids(self.messages))
        self._counted = None

    async def fit(self, summarise: Summarise) -> None:
        """Make room when the window fills up."""
        mark = self._compact_at * self.window
        if self.tokens() >= PRUNE_AT * mark:
            self._prune()
        if self.tokens() >= max(mark, self._compact_again) and not await self.compact(summarise):
            self._compact_again = self.tokens() + self.window // 20

    def _prune(self) -> None:
        room, old = self._protect, len(self.messages)
        while old and room > 0:
            old -= 1
            room -= estimate(self.messages[old])
        results = [
            message
            for message in self.messages[:old]
            if isinstance(message, ToolResult) and (len(message.text) > 2 * len(PRUNED) or message.images)
        ]
        gain = sum(estimate(message) - estimate(UserMessage(text=PRUNED)) for message in results)
        if gain < min(WORTH_PRUNING, self.window // 10):
            return
        before = self.tokens()
        calls = tuple(message.call for message in results)
        self.transcript.append(Pruned(calls=calls))
        pruned = frozenset(calls)
        self.messages = [prune(message, pruned) for message in self.messages]
        self._counted = (len(self.messages), max(before - gain, 0))
        self._emit(ContextPruned(messages_pruned=len(calls), tokens_before=before, tokens_after=self.tokens()))

    async def compact(self, summarise: Summarise, *, everything: bool = False) -> bool:
        """Replace all but the last part by a summary. If that fails it is only a warning: the turn goes on."""
        cut = len(self.messages) if everything else self._cut()
        if cut < (1 if everything else FEWEST_TO_COMPACT):
            return False
        before = self.tokens()
        try:
            summary = (await summarise(tuple(well_formed(self.messages[:cut])))).strip()
        except TreadleError as error:
            self._emit(Warned(message=f"the conversation could not be summarised: {error}", code="compact_failed"))
            return False
        if not summary:
            self._emit(Warned(message="the summary of the conversation came back empty", code="compact_failed"))
            return False
        summary = SUMMARY_MARK + summary
        self._begin_with(summary, self.messages[cut:])
        after = self.tokens()
        self._emit(ContextCompacted(tokens_before=before, tokens_after=after, summary=summary, asked=everything))
        return True

    @property
    def summary(self) -> str:
        """What the conversation begins with since it was compacted."""
        first = self.messages[0] if self.messages else None
        return first.text.removeprefix(SUMMARY_MARK) if isinstance(first, UserMessage) else ""

    async def hand_off(self, summarise: Summarise) -> bool:
        """Continue in a fresh conversation, with a short account of what happened and the last request unchanged.

        For when the provider refuses what is left after compacting, or nothing could be compacted. What happened is
        summarised from excerpts; if even that fails, the excerpts themselves are used. False when nothing would be
        gained, or the request alone is too long to be handed over.
        """
        request = _request(self.messages)
        room = HANDED_OVER - len(request) // 4
        if room < HANDED_OVER // 2 or sum(map(estimate, self.messages)) <= HANDED_OVER:
            return False
        story = excerpts(self.messages, 4 * room)
        with suppress(TreadleError):
            story = (await summarise((UserMessage(text=story),))).strip()[: 4 * room] or story
        self._begin_with(HANDOFF_MARK + story + REQUEST_MARK + request, [])
        self._emit(ContextHandoff())
        return True

    def _begin_with(self, summary: str, remaining: list[ChatMessage]) -> None:
        self.transcript.append(Compacted(summary=summary, retained=len(remaining)))
        self.messages = [UserMessage(text=summary), *remaining]
        self._counted = None

    def _cut(self) -> int:
        """Where the protected part begins: never between a tool call and its result."""
        room, cut = self._protect, len(self.messages)
        while cut and room > 0:
            cut -= 1
            room -= estimate(self.messages[cut])
        while cut < len(self.messages) and isinstance(self.messages[cut], ToolResult):
            cut += 1
        return cut


def _request(messages: Iterable[ChatMessage]) -> str:
    """What a person said last, also when it was already handed over."""
    prompts = [message.text for message in messages if isinstance(message, UserMessage)]
    last = next((text for text in reversed(prompts) if not text.startswith(SUMMARY_MARK)), "")
    return last.rpartition(REQUEST_MARK)[2] if last.startswith(HANDOFF_MARK) else last


def excerpts(messages: Sequence[ChatMessage], size: int) -> str:
    """How it began and how it went on last, a little of each message."""
    first, *rest = [_excerpt(message) for message in messages]
    size -= len(first)
    newest: deque[str] = deque()
    for line in reversed(rest):
        size -= len(line) + 1
        if size < 0:
            newest.appendleft("[...]")
            break
        newest.appendleft(line)
    return "\n".join([first, *newest])


def _excerpt(message: ChatMessage) -> str:
    who, text, most = "person", message.text, EXCERPT
    if isinstance(message, AssistantMessage):
        who = "agent"
        text = " ".join([text, *(f"({call.name} {call.arguments[:200]})" for call in message.calls)])
    elif isinstance(message, ToolResult):
        who = f"result of {message.name}"
    elif text.startswith((SUMMARY_MARK, HANDOFF_MARK)):
        most = 5 * EXCERPT  # it stands for much
    return f"{who}: {text[:most]}{' [...]' if len(text) > most else ''}"


def _call_ids(messages: Iterable[ChatMessage]) -> Iterator[str]:
    return (call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls)


def input_tokens(request: ModelRequest) -> int:
    tools = sum(len(tool.description) + len(msgspec.json.encode(tool.parameters)) for tool in request.tools)
    return (len(request.system) + tools) // 4 + sum(map(estimate, request.messages))


def estimated(model: str, request: ModelRequest, reply: AssistantMessage) -> Usage:
    """For a call that the provider did not count: tokens by a rule of thumb, at an unknown price."""
    return Usage(
        model=model,
        input_tokens=input_tokens(request),
        output_tokens=estimate(reply),
        source="estimate",
    )
