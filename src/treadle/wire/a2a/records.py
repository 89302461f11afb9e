"""What A2A speaks of, apart from how a version writes it."""

from typing import Any, Literal, TypeAlias

import msgspec

A2aState: TypeAlias = Literal[
    "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required"
]
TERMINAL: tuple[A2aState, ...] = ("completed", "failed", "canceled", "rejected")
INTERRUPTED: tuple[A2aState, ...] = ("input-required", "auth-required")
CARD_PATH = "/.well-known/agent-card.json"
VERSION_HEADER = "A2A-Version"

TASK_NOT_FOUND = -32001
TASK_NOT_CANCELABLE = -32002
PUSH_NOT_SUPPORTED = -32003
UNSUPPORTED_OPERATION = -32004
CONTENT_TYPE_NOT_SUPPORTED = -32005
EXTENDED_CARD_NOT_CONFIGURED = -32007
VERSION_NOT_SUPPORTED = -32009
REASONS = {
    TASK_NOT_FOUND: "TASK_NOT_FOUND",
    TASK_NOT_CANCELABLE: "TASK_NOT_CANCELABLE",
    PUSH_NOT_SUPPORTED: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    UNSUPPORTED_OPERATION: "UNSUPPORTED_OPERATION",
    CONTENT_TYPE_NOT_SUPPORTED: "CONTENT_TYPE_NOT_SUPPORTED",
    EXTENDED_CARD_NOT_CONFIGURED: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    VERSION_NOT_SUPPORTED: "VERSION_NOT_SUPPORTED",
}


class A2aPart(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of `text`, `raw`, `url` and `data` is there."""

    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    filename: str = ""
    media_type: str = ""


class A2aMessage(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: Literal["user", "agent"]
    parts: tuple[A2aPart, ...]
    context: str = ""
    task: str = ""
    metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text is not None)


class A2aArtifact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    parts: tuple[A2aPart, ...]
    name: str = ""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.text is not None)


class A2aStatus(msgspec.Struct, frozen=True, kw_only=True):
    state: A2aState
    message: A2aMessage | None = None
    timestamp: str = ""


class A2aTask(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    context: str
    status: A2aStatus
    artifacts: tuple[A2aArtifact, ...] = ()
    history: tuple[A2aMessage, ...] = ()
    metadata: dict[str, Any] = {}


class StatusUpdate(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    context: str
    status: A2aStatus
    metadata: dict[str, Any] = {}


class ArtifactUpdate(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    context: str
    artifact: A2aArtifact
    append: bool = False
    last: bool = False


A2aEvent: TypeAlias = A2aTask | A2aMessage | StatusUpdate | ArtifactUpdate
"""What a stream, an answer or a webhook carries."""


class PushTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where the one who sent a task wants to be told of its changes."""

    url: str
    id: str = ""
    token: str = ""
    scheme: str = ""
    credentials: str = ""


class SendParams(msgspec.Struct, frozen=True, kw_only=True):
    message: A2aMessage
    waits: bool = True
    """Whether the answer comes when the task has ended or needs something, and not at once."""
    history: int | None = None
    push: PushTarget | None = None
