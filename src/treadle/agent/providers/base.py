"""What the loop asks of a model provider: stream one reply."""

from collections.abc import AsyncGenerator
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from treadle.agent.messages import AssistantMessage, ModelRequest
from treadle.events import ModelRouted, Retrying, TextDelta, ThinkingDelta, Usage

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "other"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The whole reply; the last item of every stream that did not raise."""

    message: AssistantMessage
    finish: FinishReason
    usage: Usage | None = None
    """None when the provider reported none."""


ReplyItem: TypeAlias = TextDelta | ThinkingDelta | ModelRouted | Retrying | Reply


@runtime_checkable
class Preparing(Protocol):
    """A provider that has something to load before its first call."""

    def prepare(self) -> None: ...


class Provider(Protocol):
    """One model behind one HTTP API. Stateless between calls, safe for concurrent streams."""

    @property
    def name(self) -> str:
        """Such as `anthropic` or `openrouter`; used in errors and usage."""
        ...

    @property
    def model(self) -> str: ...

    @property
    def context_window(self) -> int | None:
        """How many tokens the model can take, if known."""
        ...

    @property
    def priced(self) -> bool:
        """Whether the cost of a call will be known, so that a cost limit can be enforced."""
        ...

    @property
    def sees(self) -> bool:
        """Whether images may be sent. Whether the model itself accepts them shows only when it refuses them."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        """Deltas as they come, Retrying before each wait, then one Reply.

        Raises errors.ProviderError (or a subclass) when it failed for good: the message says what the service said.
        Closing the iterator early closes the connection.
        """
        ...

    async def models(self) -> list[str]: ...

    async def aclose(self) -> None: ...
