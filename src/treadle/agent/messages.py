"""A conversation with a model, in no provider's dialect. This is also what session history stores."""

from typing import Any, TypeAlias

import msgspec

from treadle.session import Effort


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    arguments: str
    """The JSON text as the model wrote it: it may be malformed, and that is for the loop to report."""


class Thinking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reasoning block, kept as the provider sent it, because some want it back unchanged with the next request."""

    text: str = ""
    signature: str | None = None
    raw: Any = None
    """The provider's own item, when text and signature do not say it all (reasoning items, redacted blocks)."""
    provider: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is shown with a message. Its bytes are a file of the session."""

    name: str
    media_type: str
    size: int
    width: int
    height: int


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
    temperature: float | None = None
    reasoning: Effort | None = None
    """How hard to think; None leaves it to the service."""
    thinking_tokens: int | None = None
    """At most so many tokens of thinking, where the service takes a number; 0 is none."""
    cache_key: str = ""
    """The same for all requests of a conversation, for services that find their cache by it."""
    schema: dict[str, Any] | None = None
    """JSON Schema that the text of the reply must fit, where the service can see to that."""
    images: dict[str, bytes] = {}
    """What the images are that the messages name; one that is not here is not shown."""
    cached: bool = True
    """Whether the service may keep what it reads for the next request, where that can be told it."""
