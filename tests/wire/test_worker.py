"""The worker protocol: its reference page and its types agree, and lines together are lines alone."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle.errors import LocalProtocolError
from treadle.wire.worker import connection as worker
from treadle.wire.worker import messages as wire
from treadle.wire.worker.connection import Connection
from treadle.wire.worker.messages import (
    ContentDelta,
    ErrorEnvelope,
    EventLine,
    Init,
    InitConfig,
    InitOk,
    PermissionRules,
    Send,
    SendResult,
    UnknownMessage,
)
from treadle.wire.worker.versions import EXTENSIONS, PROTOCOL_VERSION, profile

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "worker-protocol.md").read_text()

REQUESTS = list(wire.REQUESTS.values())

RESPONSES = [kind for kind in wire.AnyResponse.__args__]

EVENTS = [kind for kind in wire.AnyPayload.__args__]


def tag(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


def section(title: str) -> str:
    found = re.search(rf"^### (?:\w+, )*{title}(?:, \w+)*\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"there is no section {title!r}"
    return found[1]


@pytest.mark.parametrize("kind", [*REQUESTS, *RESPONSES], ids=tag)
def test_every_field_of_a_message_is_documented(kind: Any) -> None:
    text = section(tag(kind))
    for field in msgspec.structs.fields(kind):
        if field.name not in ("id", "config"):
            assert f"`{field.name}`" in text, f"{tag(kind)}.{field.name}"


def test_every_setting_of_an_init_is_documented() -> None:
    for field in msgspec.structs.fields(wire.InitConfig):
        assert re.search(rf"`(config\.)?{field.name}`", section("init")), field.name


@pytest.mark.parametrize("kind", EVENTS, ids=tag)
def test_every_event_is_documented_with_its_fields(kind: Any) -> None:
    row = re.search(rf"^- .*`{tag(kind)}`(.*)$", PAGE.partition("## Events")[2], re.MULTILINE)
    assert row, tag(kind)
    for field in msgspec.structs.fields(kind):
        assert f"`{field.name}`" in row[1], f"{tag(kind)}.{field.name}"


def test_every_extension_is_named() -> None:
    for name in EXTENSIONS:
        assert f"`config.{name}`" in PAGE or f"`{name}`" in PAGE, name


@pytest.mark.parametrize("kind", [*REQUESTS, *RESPONSES, *EVENTS], ids=tag)
def test_a_field_without_a_default_is_always_on_the_wire(kind: Any) -> None:
    """omit_defaults leaves out default values, so a field that clients rely on must not have a default."""
    always = {
        "event": {"event", "event_seq", "send_id"},
        "result": {"id", "status", "tool_calls_made", "iterations"},
        "status_ok": {"id", "model", "messages_count", "session_id", "active"},
        "init_ok": {"id", "session_id"},
        "tool_start": {"name", "args"},
        "tool_end": {"name", "result_preview"},
        "usage": {"prompt_tokens", "completion_tokens", "total_tokens"},
        "error": {"code", "message", "retryable"},
    }
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    assert required >= always.get(tag(kind), set())


def test_an_extension_is_on_only_when_it_was_asked_for() -> None:
    plain = wire.InitConfig(model="m", system_prompt="", tools=())
    config = msgspec.structs.replace(plain, capabilities=("steer",))
    assert config.asked("steer") and not config.asked("tasks") and not plain.asked("steer")


def test_the_version_file_says_what_the_code_says() -> None:
    assert files("treadle.wire.worker").joinpath("PROTOCOL_VERSION").read_text() == PROTOCOL_VERSION + "\n"


def test_rules_make_another_profile_only_where_they_were_asked_for() -> None:
    config = InitConfig(model="m", system_prompt="", tools=(), permissions=PermissionRules(deny=("x",)))
    asked = msgspec.structs.replace(config, capabilities=("permissions",))
    plain = msgspec.structs.replace(config, permissions=None)
    assert profile(config, (), (0, 5)) == profile(plain, (), (0, 5)) != profile(asked, (), (0, 5))
    assert profile(msgspec.structs.replace(plain, capabilities=("permissions",)), (), (0, 5)) == profile(
        plain, (), (0, 5)
    )


INIT = Init(id="1", config=InitConfig(model="m", system_prompt="s", tools=()))

OK = InitOk(id="1", session_id="s1", protocol_version="0.2.0")


def result(id: str, error: str | None = None) -> SendResult:
    envelope = ErrorEnvelope(code=error, message=error, retryable=False) if error else None
    return SendResult(id=id, status="error" if error else "ok", tool_calls_made=(), iterations=0, error=envelope)


def opened(role: str) -> Connection:
    """An end that has seen a whole handshake and a send with id 2."""
    end = Connection(role)
    for sender, message in [("client", INIT), ("worker", OK), ("client", Send(id="2", message="hi"))]:
        if sender == role:
            end.send(message)
        else:
            assert end.receive(worker.encode(message)) == [message]
    return end


def events(*numbers: int, send: str = "2") -> list[EventLine]:
    return [EventLine(ContentDelta("a"), number, send) for number in numbers]


def test_events_sent_together_are_the_bytes_of_each_alone() -> None:
    one, together = opened("worker"), opened("worker")
    assert together.send_events(events(0, 1, 2)) == b"".join(one.send(event) for event in events(0, 1, 2))
    assert together.send_events(events(3)) == one.send(events(3)[0])


@pytest.mark.parametrize(
    "wrong",
    [events(1, 2), events(0, 2), [*events(0), *events(1, send="9")], events(0, send="9")],
    ids=["late start", "gap", "two sends", "no such send"],
)
def test_events_sent_together_must_follow_each_other_in_one_open_send(wrong: list[EventLine]) -> None:
    end = opened("worker")
    with pytest.raises(LocalProtocolError):
        end.send_events(wrong)
    end.send_events(events(0, 1))


def test_nobody_sends_what_the_protocol_does_not_name() -> None:
    with pytest.raises(LocalProtocolError, match="only what the protocol names"):
        opened("client").send(UnknownMessage("weather", b"{}"))
