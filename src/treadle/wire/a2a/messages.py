"""What A2A speaks of, and how versions 1.0 and 0.3 write it: tasks, messages, cards and the names of methods."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

# What A2A speaks of, apart from how a version writes it.

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
"""What a stream or an answer carries."""


class SendParams(msgspec.Struct, frozen=True, kw_only=True):
    message: A2aMessage
    waits: bool = True
    """Whether the answer comes when the task has ended or needs something, and not at once."""
    history: int | None = None
    push: bool = False
    """Whether the client wants to be called back."""


# How versions 1.0 and 0.3 of A2A write the same things, and the names of their methods.
#
# 1.0 writes as ProtoJSON does: enums by their names, one field for each kind. 0.3 has a `kind` in each object.

Version: TypeAlias = Literal["1.0", "0.3"]
VERSIONS: tuple[Version, ...] = get_args(Version)
Operation: TypeAlias = Literal["send", "stream", "get", "list", "cancel", "subscribe", "push", "card"]
METHODS: dict[Version, dict[str, Operation]] = {
    "1.0": {
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
    },
    "0.3": {
        "message/send": "send",
        "message/stream": "stream",
        "tasks/get": "get",
        "tasks/cancel": "cancel",
        "tasks/resubscribe": "subscribe",
        "tasks/pushNotificationConfig/set": "push",
        "tasks/pushNotificationConfig/get": "push",
        "tasks/pushNotificationConfig/list": "push",
        "tasks/pushNotificationConfig/delete": "push",
        "agent/getAuthenticatedExtendedCard": "card",
    },
}
_STATES: tuple[A2aState, ...] = get_args(A2aState)


class Malformed(ValueError):
    """What was sent is not what the version says; the text names the field."""


def version_of(header: str) -> Version | None:
    """The version that a request asks for; no header means 0.3. None: one that is not spoken here."""
    wanted = ".".join(header.strip().split(".")[:2]) or "0.3"
    return next((version for version in VERSIONS if version == wanted), None)


def as_camel(found: Any) -> Any:
    """Parameters whose fields may have the names of the .proto file, as readers of ProtoJSON take both."""
    try:
        return _camel(found)
    except RecursionError:
        raise Malformed("params is nested too deeply") from None


def _camel(found: Any) -> Any:
    if isinstance(found, list):
        return [_camel(each) for each in found]
    if not isinstance(found, dict):
        return found
    named = {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): value for name, value in found.items()}
    return {name: value if name in ("data", "metadata") else _camel(value) for name, value in named.items()}


def method_of(version: Version, operation: Operation) -> str:
    return next(method for method, known in METHODS[version].items() if known == operation)


# Writing


def written(event: A2aEvent, version: Version) -> dict[str, Any]:
    """As the result of a stream, and of sending in 1.0."""
    found = plain(event, version)
    if version == "0.3":
        return found
    names = {A2aTask: "task", A2aMessage: "message", StatusUpdate: "statusUpdate", ArtifactUpdate: "artifactUpdate"}
    return {names[type(event)]: found}


def plain(event: A2aEvent, version: Version) -> dict[str, Any]:
    """The object itself."""
    if isinstance(event, A2aTask):
        return _task(event, version)
    if isinstance(event, A2aMessage):
        return _message(event, version)
    about: dict[str, Any] = {"taskId": event.task, "contextId": event.context}
    if isinstance(event, StatusUpdate):
        about["status"] = _status(event.status, version)
        if version == "0.3":
            about |= {"kind": "status-update", "final": event.status.state in (*TERMINAL, *INTERRUPTED)}
        return about | _some(metadata=event.metadata)
    about |= {"artifact": _artifact(event.artifact, version), "append": event.append, "lastChunk": event.last}
    return about | ({"kind": "artifact-update"} if version == "0.3" else {})


def send_written(params: SendParams, version: Version) -> dict[str, Any]:
    configuration: dict[str, Any] = {"acceptedOutputModes": ["text/plain"]}
    configuration |= {"blocking": params.waits} if version == "0.3" else {"returnImmediately": not params.waits}
    return {"message": _message(params.message, version), "configuration": configuration}


def _task(task: A2aTask, version: Version) -> dict[str, Any]:
    found = {"id": task.id, "contextId": task.context, "status": _status(task.status, version)}
    artifacts = [_artifact(each, version) for each in task.artifacts]
    history = [_message(each, version) for each in task.history]
    kind = {"kind": "task"} if version == "0.3" else {}
    return found | _some(artifacts=artifacts, history=history, metadata=task.metadata) | kind


def _status(status: A2aStatus, version: Version) -> dict[str, Any]:
    state = status.state if version == "0.3" else f"TASK_STATE_{status.state.upper().replace('-', '_')}"
    message = None if status.message is None else _message(status.message, version)
    return {"state": state} | _some(message=message, timestamp=status.timestamp)


def _message(message: A2aMessage, version: Version) -> dict[str, Any]:
    found: dict[str, Any] = {"messageId": message.id, "role": message.role, "kind": "message"}
    if version == "1.0":
        found = {"messageId": message.id, "role": f"ROLE_{message.role.upper()}"}
    found["parts"] = [_part(part, version) for part in message.parts]
    return found | _some(contextId=message.context, taskId=message.task, metadata=message.metadata)


def _artifact(artifact: A2aArtifact, version: Version) -> dict[str, Any]:
    found = {"artifactId": artifact.id, "parts": [_part(part, version) for part in artifact.parts]}
    return found | _some(name=artifact.name)


def _part(part: A2aPart, version: Version) -> dict[str, Any]:
    if version == "1.0":
        named = _some(filename=part.filename, mediaType=part.media_type)
        if part.text is not None:
            return {"text": part.text, **named}
        if part.raw is not None:
            return {"raw": base64.b64encode(part.raw).decode(), **named}
        return ({"url": part.url} if part.url is not None else {"data": part.data}) | named
    if part.text is not None:
        return {"kind": "text", "text": part.text}
    if part.raw is None and part.url is None:
        return {"kind": "data", "data": part.data if isinstance(part.data, dict) else {"value": part.data}}
    named = _some(name=part.filename, mimeType=part.media_type)
    if part.raw is not None:
        return {"kind": "file", "file": {"bytes": base64.b64encode(part.raw).decode(), **named}}
    return {"kind": "file", "file": {"uri": part.url, **named}}


def _some(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


# Reading


def read_event(found: Any, version: Version) -> A2aEvent:
    """One result of a stream, or of sending."""
    found = _object(found, "result")
    if version == "1.0":
        kind, inner = next(((name, found[name]) for name in _READERS if name in found), ("", None))
    else:
        kind, inner = _KINDS.get(str(found.get("kind")), ""), found
    if not kind:
        raise Malformed("the result is neither a task, a message nor an update of one")
    return cast(A2aEvent, _READERS[kind](_object(inner, kind), version))


def read_task(found: Any, version: Version) -> A2aTask:
    found = _object(found, "task")
    artifacts = tuple(_read_artifact(each, version) for each in _list(found, "artifacts"))
    history = tuple(read_message(each, version) for each in _list(found, "history"))
    status = _read_status(found.get("status"), version)
    context = _text(found, "contextId", "")
    return A2aTask(id=_text(found, "id"), context=context, status=status, artifacts=artifacts, history=history)


def read_message(found: Any, version: Version) -> A2aMessage:
    found = _object(found, "message")
    role = _text(found, "role").removeprefix("ROLE_").lower() if version == "1.0" else _text(found, "role")
    if role not in ("user", "agent"):
        raise Malformed(f"message.role is {found.get('role')!r}")
    parts = tuple(_read_part(each, version) for each in _list(found, "parts"))
    if not parts:
        raise Malformed("message.parts: at least one part is needed")
    return A2aMessage(
        id=_text(found, "messageId"),
        role=cast(Literal["user", "agent"], role),
        parts=parts,
        context=_text(found, "contextId", ""),
        task=_text(found, "taskId", ""),
        metadata=_object(found.get("metadata") or {}, "metadata"),
    )


def read_send(found: Any, version: Version) -> SendParams:
    found = _object(found, "params")
    message = read_message(found.get("message"), version)
    if message.role != "user":
        raise Malformed("message.role: a message that is sent to an agent is from a user")
    asked = _object(found.get("configuration") or {}, "configuration")
    waits = asked.get("blocking") is not False if version == "0.3" else asked.get("returnImmediately") is not True
    push = asked.get("pushNotificationConfig" if version == "0.3" else "taskPushNotificationConfig")
    return SendParams(message=message, waits=waits, history=read_length(asked), push=bool(push))


def read_length(found: Mapping[str, Any]) -> int | None:
    length = found.get("historyLength")
    if length is not None and (type(length) is not int or length < 0):
        raise Malformed("historyLength is no whole number from 0")
    return length


def _read_status(found: Any, version: Version) -> A2aStatus:
    found = _object(found, "status")
    given = _text(found, "state")
    state = given.removeprefix("TASK_STATE_").lower().replace("_", "-") if version == "1.0" else given
    if state not in _STATES:
        raise Malformed(f"status.state is {given!r}")
    message = found.get("message")
    return A2aStatus(
        state=state,
        message=None if message is None else read_message(message, version),
        timestamp=_text(found, "timestamp", ""),
    )


def _read_status_update(found: dict[str, Any], version: Version) -> StatusUpdate:
    return StatusUpdate(
        task=_text(found, "taskId"),
        context=_text(found, "contextId"),
        status=_read_status(found.get("status"), version),
        metadata=_object(found.get("metadata") or {}, "metadata"),
    )


def _read_artifact_update(found: dict[str, Any], version: Version) -> ArtifactUpdate:
    return ArtifactUpdate(
        task=_text(found, "taskId"),
        context=_text(found, "contextId"),
        artifact=_read_artifact(found.get("artifact"), version),
        append=found.get("append") is True,
        last=found.get("lastChunk") is True,
    )


def _read_artifact(found: Any, version: Version) -> A2aArtifact:
    found = _object(found, "artifact")
    parts = tuple(_read_part(each, version) for each in _list(found, "parts"))
    return A2aArtifact(id=_text(found, "artifactId"), parts=parts, name=_text(found, "name", ""))


def _read_part(found: Any, version: Version) -> A2aPart:
    found = _object(found, "part")
    if version == "0.3":
        found = _as_current(found)
    named: dict[str, Any] = {"filename": _text(found, "filename", ""), "media_type": _text(found, "mediaType", "")}
    kinds = [kind for kind in ("text", "raw", "url", "data") if kind in found]
    if len(kinds) != 1:
        raise Malformed("a part has exactly one of text, raw, url and data")
    if kinds == ["data"]:
        return A2aPart(data=found["data"], **named)
    given = _text(found, kinds[0])
    if kinds == ["raw"]:
        try:
            return A2aPart(raw=base64.b64decode(given, validate=True), **named)
        except (binascii.Error, ValueError) as error:
            raise Malformed(f"part.raw is no base64: {error}") from None
    return A2aPart(text=given, **named) if kinds == ["text"] else A2aPart(url=given, **named)


def _as_current(found: dict[str, Any]) -> dict[str, Any]:
    """A part of 0.3 as 1.0 would write it."""
    kind = found.get("kind")
    if kind == "file":
        file = _object(found.get("file"), "part.file")
        names = {"bytes": "raw", "uri": "url", "name": "filename", "mimeType": "mediaType"}
        return {names[name]: value for name, value in file.items() if name in names and value is not None}
    if kind in ("text", "data") and kind in found:
        return {kind: found[kind]}
    raise Malformed(f"a part of the kind {kind!r} is not known")


_READERS: dict[str, Any] = {
    "task": read_task,
    "message": read_message,
    "statusUpdate": _read_status_update,
    "artifactUpdate": _read_artifact_update,
}
_KINDS = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}


def _object(found: Any, name: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise Malformed(f"{name} is no object")
    return found


def _list(found: dict[str, Any], name: str) -> list[Any]:
    given = found.get(name)
    if given is not None and not isinstance(given, list):
        raise Malformed(f"{name} is no list")
    return given or []


def _text(found: dict[str, Any], name: str, missing: str | None = None) -> str:
    given = found.get(name)
    if given is None and missing is not None:
        return missing
    if not isinstance(given, str) or (not given and missing is None):
        if given == "" and name in ("text", "raw"):  # a part may be empty, an id may not
            return ""
        raise Malformed(f"{name} is missing" if given is None else f"{name} is no text")
    return given


# Agent cards: how an agent says what it is and where it is spoken to.

BINDING = "JSONRPC"


class AgentAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What a client takes from a card."""

    name: str
    url: str
    version: Version
    agent_version: str = ""
    streaming: bool = False
    images: bool = False


def card(*, name: str, description: str, url: str, version: str, images: bool, token: bool) -> dict[str, Any]:
    """One that clients of both versions read: each ignores the fields of the other."""
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
        "supportedInterfaces": [
            {"url": url, "protocolBinding": BINDING, "protocolVersion": spoken} for spoken in VERSIONS
        ],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": modes,
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
        # What a client of 0.3 looks for.
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": BINDING,
    }
    if token:
        scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http", "scheme": "bearer"}
        found |= {"securitySchemes": {"token": scheme}, "security": [{"token": []}]}
        found["securityRequirements"] = [{"schemes": {"token": {"list": []}}}]
    return found


def read_card(found: Any) -> AgentAddress:
    """Where and how to speak to an agent; Malformed when it is no card, or names no way that we speak."""
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise Malformed("there is no agent card")
    offered = _offered(found)
    for wanted in VERSIONS:
        for url, binding, version in offered:
            if binding == BINDING and version_of(version) == wanted:
                return _address(found, url, wanted)
    shown = ", ".join(f"{binding} {version}" for _, binding, version in offered) or "none"
    raise Malformed(f"the agent is reached only in ways that are not spoken here: {shown}")


def _offered(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    listed = found.get("supportedInterfaces")
    ways = [
        (str(each.get("url")), str(each.get("protocolBinding")), str(each.get("protocolVersion") or "1.0"))
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict)
    ]
    version = str(found.get("protocolVersion") or "0.3")
    if isinstance(found.get("url"), str):
        ways.append((found["url"], str(found.get("preferredTransport") or BINDING), version))
    more = found.get("additionalInterfaces")
    for each in more if isinstance(more, list) else []:
        if isinstance(each, dict):
            ways.append((str(each.get("url")), str(each.get("transport")), version))
    return ways


def _address(found: dict[str, Any], url: str, version: Version) -> AgentAddress:
    can = found.get("capabilities")
    modes = found.get("defaultInputModes")
    return AgentAddress(
        name=found["name"],
        url=url,
        version=version,
        agent_version=str(found.get("version") or ""),
        streaming=isinstance(can, dict) and can.get("streaming") is True,
        images=isinstance(modes, list) and any(str(mode).startswith("image/") for mode in modes),
    )
