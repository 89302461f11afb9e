"""A conversation with a model, in no provider's format. Session history stores it too."""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from treadle.events import ModelRouted, Retrying, TextDelta, ThinkingDelta, Usage
from treadle.session import Effort


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    arguments: str
    """The JSON text as the model wrote it. It may be malformed; the loop reports that."""


class Thinking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reasoning block as the provider sent it, because some want it back unchanged with the next request."""

    text: str = ""
    signature: str | None = None
    raw: Any = None
    """The provider's own item, where text and signature do not say everything (reasoning items, redacted blocks)."""
    provider: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image or a document that is shown with a message. Its bytes are a file of the session."""

    name: str
    media_type: str
    size: int
    width: int
    height: int
    pages: int = 0


class UserMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="role", tag="user"):
    text: str
    images: tuple[Image, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    text: str = ""
    thinking: tuple[Thinking, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    model: str = ""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="role", tag="tool"):
    call: str
    name: str
    text: str
    ok: bool = True
    images: tuple[Image, ...] = ()


ChatMessage: TypeAlias = UserMessage | AssistantMessage | ToolResult


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments object."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    system: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    max_output_tokens: int | None = None
    reasoning: Effort | None = None
    """How hard to think; None leaves it to the service."""
    thinking_tokens: int | None = None
    """The most tokens of thinking, where the service accepts a number; 0 means none."""
    cache_key: str = ""
    """The same for all requests of a conversation, for services that find their cache by it."""
    images: dict[str, bytes] = {}
    """The bytes of the images that the messages name; an image that is missing here is not shown."""


# What the loop asks of a model provider: stream one reply.

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

    def cost(self, usage: Usage) -> float | None:
        """What a call that uses so much costs; None where that is not known."""
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
