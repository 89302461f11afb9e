"""What A2A 1.0 speaks of and how it writes it, as ProtoJSON does: tasks, messages, cards and the names of methods."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

# What A2A speaks of. The fields are the names on the wire, in our words for states and roles.

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


Name = Annotated[str, Meta(min_length=1)]


class A2aPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Exactly one of `text`, `raw`, `url` and `data` is there."""

    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    filename: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        given = [each for each in (self.text, self.raw, self.url) if each is not None]
        if len(given) + (self.data is not msgspec.UNSET) != 1:
            raise ValueError("a part has exactly one of text, raw, url and data")


_OF_TASK = {"context": "contextId", "task": "taskId"}


class A2aMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"id": "messageId", **_OF_TASK}):
    id: Name
    role: Literal["user", "agent"]
    parts: Annotated[tuple[A2aPart, ...], Meta(min_length=1)]
    context: str = ""
    task: str = ""
    metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text is not None)


class A2aArtifact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"id": "artifactId"}):
    id: Name
    parts: tuple[A2aPart, ...] = ()
    name: str = ""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.text is not None)


class A2aStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: A2aState
    message: A2aMessage | None = None
    timestamp: str = ""


class A2aTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_OF_TASK):
    id: Name
    context: str = ""
    status: A2aStatus
    artifacts: tuple[A2aArtifact, ...] = ()
    history: tuple[A2aMessage, ...] = ()
    metadata: dict[str, Any] = {}


class StatusUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_OF_TASK):
    task: Name
    context: Name
    status: A2aStatus
    metadata: dict[str, Any] = {}


class ArtifactUpdate(msgspec.Struct, frozen=True, kw_only=True, rename={**_OF_TASK, "last": "lastChunk"}):
    task: Name
    context: Name
    artifact: A2aArtifact
    append: bool = False
    last: bool = False


A2aEvent: TypeAlias = A2aTask | A2aMessage | StatusUpdate | ArtifactUpdate
"""What a stream or an answer carries."""
RESULTS: dict[str, type[A2aEvent]] = {
    "task": A2aTask,
    "message": A2aMessage,
    "statusUpdate": StatusUpdate,
    "artifactUpdate": ArtifactUpdate,
}


class SendConfiguration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    accepted_output_modes: tuple[str, ...] = ()
    return_immediately: bool = False
    """Whether the answer comes at once, and not when the task has ended or needs something."""
    history_length: Annotated[int, Meta(ge=0)] | None = None
    task_push_notification_config: Any = None
    """Where the client wants to be called back."""


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: Name
    history_length: Annotated[int, Meta(ge=0)] | None = None


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which tasks are wanted; what is empty does not filter."""

    context_id: str = ""
    status: str = ""
    status_timestamp_after: datetime | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] = 50
    page_token: str = ""
    history_length: Annotated[int, Meta(ge=0)] | None = None
    include_artifacts: bool = False


class SendParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    message: A2aMessage
    configuration: SendConfiguration = SendConfiguration()


VERSION = "1.0"
Operation: TypeAlias = Literal["send", "stream", "get", "list", "cancel", "subscribe", "push", "card"]
METHODS: dict[str, Operation] = {
    "SendMessage": "send",
    "SendStreamingMessage": "stream",
    "GetTask": "get",
    "ListTasks": "list",
    "CancelTask": "cancel",
    "SubscribeToTask": "subscribe",
    "CreateTaskPushNotificationConfig": "push",
    "GetTaskPushNotificationConfig": "push",
    "ListTaskPushNotificationConfigs": "push",
    "DeleteTaskPushNotificationConfig": "push",
    "GetExtendedAgentCard": "card",
}


class Malformed(ValueError):
    """What was sent is not what the version says; the text names the field."""


def is_spoken(version: str) -> bool:
    """Whether a request or a card names the version that is spoken here. No name means 0.3, says the specification."""
    return version.strip().split(".")[:2] == VERSION.split(".")


def method_of(operation: Operation) -> str:
    return next(method for method, known in METHODS.items() if known == operation)


# Reading and writing. ProtoJSON has enums by their names, and a field that is null is not there.

_FREE = ("data", "metadata")
"""Fields that hold anything."""


def as_camel(found: Any) -> Any:
    """What was sent, in our words. Fields may have the names of the .proto file, as readers of ProtoJSON take both."""
    try:
        return _camel(found)
    except RecursionError:
        raise Malformed("params is nested too deeply") from None


def _camel(found: Any) -> Any:
    if isinstance(found, list):
        return [_camel(each) for each in found]
    if not isinstance(found, dict):
        return found
    given = {name: value for name, value in found.items() if value is not None or name == "data"}
    named = {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): value for name, value in given.items()}
    return {name: value if name in _FREE else _our_word(name, _camel(value)) for name, value in named.items()}


def _our_word(name: str, value: Any) -> Any:
    if name not in ("role", "state") or not isinstance(value, str):
        return value
    return value.removeprefix("ROLE_").removeprefix("TASK_STATE_").lower().replace("_", "-")


def plain(value: A2aEvent | SendParams) -> dict[str, Any]:
    """The object itself."""
    found: dict[str, Any] = _proto(msgspec.to_builtins(value))
    return found


def _proto(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [_proto(each) for each in found]
    if not isinstance(found, dict):
        return found
    enums = {"role": "ROLE_", "state": "TASK_STATE_"}
    return {
        name: f"{enums[name]}{value.upper().replace('-', '_')}"
        if name in enums
        else value
        if name in _FREE
        else _proto(value)
        for name, value in found.items()
    }


def written(event: A2aEvent) -> dict[str, Any]:
    """As the result of a stream, and of sending."""
    return {next(name for name, kind in RESULTS.items() if isinstance(event, kind)): plain(event)}


def read_event(found: Any) -> A2aEvent:
    """One result of a stream, or of sending."""
    found = as_camel(found)
    for name, kind in RESULTS.items():
        if isinstance(found, dict) and name in found:
            return read(found[name], kind)
    raise Malformed("the result is neither a task, a message nor an update of one")


def read_task(found: Any) -> A2aTask:
    return read(as_camel(found), A2aTask)


def read_send(found: Any) -> SendParams:
    params = read(as_camel(found), SendParams)
    if params.message.role != "user":
        raise Malformed("message.role: a message that is sent to an agent is from a user")
    return params


T = TypeVar("T")


def read(found: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None


# Agent cards: how an agent says what it is and where it is spoken to.

BINDING = "JSONRPC"


class AgentAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What a client takes from a card."""

    name: str
    url: str
    agent_version: str = ""
    streaming: bool = False
    images: bool = False


def card(*, name: str, description: str, url: str, version: str, images: bool, token: bool) -> dict[str, Any]:
    modes = ["text/plain", "application/json"]
    modes += ["image/png", "image/jpeg", "image/gif", "image/webp"] if images else []
    skill = {
        "id": "code",
        "name": "Coding",
        "description": "Reads, changes and runs code in its working directory, and answers questions about it.",
        "tags": ["code", "files", "shell"],
        "examples": ["Why does the build fail?", "Add a test for the parser."],
    }
    found: dict[str, Any] = {
        "name": name,
        "description": description,
        "version": version,
        "supportedInterfaces": [{"url": url, "protocolBinding": BINDING, "protocolVersion": VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": modes,
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
    }
    if token:
        found["securitySchemes"] = {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        found["securityRequirements"] = [{"schemes": {"token": {"list": []}}}]
    return found


def read_card(found: Any) -> AgentAddress:
    """Where and how to speak to an agent; Malformed when it is no card, or names no way that we speak."""
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise Malformed("there is no agent card")
    listed = found.get("supportedInterfaces")
    ways = [
        (str(each.get("url")), str(each.get("protocolBinding")), str(each.get("protocolVersion") or VERSION))
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict)
    ]
    url = next((url for url, binding, version in ways if binding == BINDING and is_spoken(version)), None)
    if url is None:
        shown = ", ".join(f"{binding} {version}" for _, binding, version in ways) or "none"
        raise Malformed(f"the agent is reached only in ways that are not spoken here: {shown}")
    can = found.get("capabilities")
    modes = found.get("defaultInputModes")
    return AgentAddress(
        name=found["name"],
        url=url,
        agent_version=str(found.get("version") or ""),
        streaming=isinstance(can, dict) and can.get("streaming") is True,
        images=isinstance(modes, list) and any(str(mode).startswith("image/") for mode in modes),
    )
