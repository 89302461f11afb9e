"""The messages of pi's RPC mode, and one end of the conversation. Host and agent each have one message shape, whose
`type` tells which fields matter.
"""

import re
from typing import Any, ClassVar, TypeAlias

import msgspec

from treadle.errors import InvalidJson, Violation
from treadle.events import ErrorInfo, ToolKind, Usage
from treadle.wire.common.connection import LineConnection, Transitions, json_line
from treadle.wire.common.jsontext import amount, count

QUESTION, ANSWER, RESPONSE = "extension_ui_request", "extension_ui_response", "response"


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of the host: prompt, steer, abort, get_state, set_model ..., or the answer to a question."""

    type: str
    id: str = ""
    message: str | None = None
    images: tuple[dict[str, Any], ...] = ()
    provider: str | None = None
    modelId: str | None = None
    level: str | None = None
    value: str | None = None
    confirmed: bool | None = None
    cancelled: bool | None = None


class Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a reply. The whole reply so far accompanies each part; we do not read it."""

    type: str = ""
    delta: str | None = None


class PiMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of the agent: a response, a question of an extension, or an event."""

    type: str
    id: str | None = None
    # response
    command: str = ""
    success: bool | None = None
    data: Any = None
    error: str | None = None
    # extension_ui_request
    method: str = ""
    title: str = ""
    placeholder: str | None = None
    # events
    assistantMessageEvent: Piece | None = None
    message: Any = None
    toolCallId: str = ""
    toolName: str = ""
    args: Any = None
    partialResult: Any = None
    result: Any = None
    isError: bool = False
    attempt: int = 0
    delayMs: int = 0
    errorMessage: str | None = None


Message: TypeAlias = Command | PiMessage
_commands = msgspec.json.Decoder(Command)
_messages = msgspec.json.Decoder(PiMessage)


class Connection(LineConnection[Message]):
    SAYS: ClassVar = {"host": frozenset({"command", "answer"}), "agent": frozenset({"response", "question", "event"})}
    START: ClassVar = "open"
    TRANSITIONS: ClassVar[Transitions] = {
        ("open", kind): "open" for kind in ("command", "answer", "response", "question", "event")
    }
    """There is no greeting, commands may be sent ahead, and events come between a command and its response: any
    message may come at any time, so one state is all there is."""

    def kind(self, sender: str, message: Message) -> str:
        if isinstance(message, Command):
            return "answer" if message.type == ANSWER else "command"
        return {RESPONSE: "response", QUESTION: "question"}.get(message.type, "event")

    def read(self, line: bytes) -> Message:
        try:
            found: Message = (_messages if self.role == "host" else _commands).decode(line)
            return found
        except msgspec.ValidationError as error:
            raise Violation(f"a message is not valid: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidJson(f"a line is not JSON: {error}") from error

    def encode(self, message: Message) -> bytes:
        return json_line(message)


# What pi's messages mean in our events. Pure.

KINDS: dict[str, ToolKind] = {
    "bash": "execute",
    **dict.fromkeys(("read", "grep", "find", "ls"), "read"),
    **dict.fromkeys(("write", "edit"), "write"),
}


def text_of(message: Any) -> str:
    """The text of a message's or a result's content."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    parts = [part for part in content or [] if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(str(part.get("text") or "") for part in parts)


def thinking_of(message: Any) -> str:
    parts = message.get("content") if isinstance(message, dict) else None
    found = [part for part in parts or [] if isinstance(part, dict) and part.get("type") == "thinking"]
    return "".join(str(part.get("thinking") or "") for part in found)


def usage(message: dict[str, Any]) -> Usage | None:
    """None for a reply that produced nothing. pi reports a price of zero when it does not know the price."""
    used = message.get("usage")
    if not isinstance(used, dict):
        return None

    cost = used.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    found = Usage(
        model=str(message.get("model") or ""),
        input_tokens=count(used.get("input")),
        output_tokens=count(used.get("output")),
        cache_read_tokens=count(used.get("cacheRead")),
        cache_write_tokens=count(used.get("cacheWrite")),
        cost_usd=amount(total) or None,
    )
    return found if found.prompt_tokens or found.output_tokens else None


def error_info(message: str) -> ErrorInfo:
    """The HTTP status is the first number in the text, if the service gave one."""
    found = re.match(r"\s*(\d{3})\b", message)
    status = int(found.group(1)) if found else None
    code = {401: "auth_failed", 403: "auth_failed", 429: "rate_limited"}.get(status or 0, "provider_error")
    return ErrorInfo(
        code=code, message=message, retryable=status == 429 or (status or 0) >= 500, details={"status": status}
    )
