"""What each wire makes of what it is told, both ways: `tests/golden/translations` has the conversations.

A conversation is a title with its translator, module or class, then lines in (`>`: a method or function with JSON
arguments), what each gave (`<`, or `!` for an error) and what was known at the end (`=`), without fields that are as
they always are. `UPDATE_GOLDEN=1` writes all but `#` and `>` anew; a new conversation needs only those.
"""

import collections.abc
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

import acp
import msgspec
import pytest

from tests.test_golden import ANY_ID, GOLDEN, same
from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.errors import TreadleError
from treadle.events import AnyEvent, ErrorInfo, Event
from treadle.policy.guess import access_of
from treadle.session import Access
from treadle.wire.a2a import messages as a2a
from treadle.wire.acp import connection as acp_content
from treadle.wire.acp import translation as acp_outgoing
from treadle.wire.acp.tools import ToolRecord, UsageMeter
from treadle.wire.acp.translation import AcpIncoming, AcpOutgoing, HistoryReplay
from treadle.wire.claude import connection as claude
from treadle.wire.claude import connection as claude_records
from treadle.wire.codex import translation as codex_items
from treadle.wire.codex import translation as codex_outgoing
from treadle.wire.codex.translation import AppServerOutgoing, ExecRecords
from treadle.wire.common import jsonrpc, rpc
from treadle.wire.common.connection import Connection
from treadle.wire.common.jsonrpc import Fault
from treadle.wire.goal import plan, verdicts
from treadle.wire.heimdall import messages as heimdall
from treadle.wire.mcp import connection as mcp
from treadle.wire.mcp import revisions
from treadle.wire.oneshot import arguments, content
from treadle.wire.oneshot import connection as oneshot
from treadle.wire.oneshot import connection as oneshot_end
from treadle.wire.pi import connection as pi
from treadle.wire.sidecar import connection as sidecar_end
from treadle.wire.sidecar import receipts, repair
from treadle.wire.sidecar.events import SidecarIncoming, SidecarOutgoing
from treadle.wire.sidecar.receipts import AnyAgentEvent
from treadle.wire.worker import connection as worker_end
from treadle.wire.worker import events as worker
from treadle.wire.worker import messages as worker_messages
from treadle.wire.worker import versions

DIFF = {"type": "diff", "path": "/w/a", "oldText": "1", "newText": "2"}


def about(item: dict[str, Any]) -> Access:
    return Access(tool=codex_items.tool_name(item), kind="execute", command="ls", args=codex_items.tool_args(item))


class Acp(AcpIncoming):
    def __init__(self) -> None:
        super().__init__(access_of, UsageMeter("turn"))

    def touched(self, update: dict[str, Any]) -> tuple[Access, bool] | None:
        """What a tool call touches, and whether only its title says so."""
        record = self.record(update)
        return (self.access(record), self.from_title(record)) if record else None

    def started(self, update: dict[str, Any]) -> list[Event]:
        record = self.record(update)
        return self.start(record) if record else []

    def denied(self, update: dict[str, Any]) -> None:
        if record := self.record(update):
            record.denied = True


class Worker(worker.WorkerIncoming):
    def __init__(self) -> None:
        super().__init__("s", access_of)

    def events(self, payload: worker_messages.AnyPayload) -> tuple[Event, ...]:
        return super().events(payload)


class Sidecar(SidecarIncoming):
    def __init__(self) -> None:
        super().__init__(access_of)

    def translate(self, event: AnyAgentEvent) -> list[Event]:
        return super().translate(event)


class A2a:
    """Messages, read and written."""

    read_card = staticmethod(a2a.read_card)
    card = staticmethod(a2a.card)
    read_send = staticmethod(a2a.read_send)
    is_spoken = staticmethod(a2a.is_spoken)
    as_camel = staticmethod(a2a.as_camel)

    def event(self, found: Any) -> list[Any]:
        event = a2a.read_event(found)
        return [event, a2a.written(event)]


class WorkerErrors:
    envelope = staticmethod(worker.envelope)

    def error_info(self, error: worker_messages.ErrorEnvelope) -> ErrorInfo:
        return worker.error_info(error)


class Verdicts:
    """What an agent said, or was parsed, as the verdict that was asked for."""

    is_test = staticmethod(verdicts.is_test)

    def review(self, text: str) -> verdicts.ReviewVerdict:
        return verdicts.in_words(verdicts.ReviewVerdict, text)

    def judge(self, text: str) -> verdicts.JudgeVerdict:
        return verdicts.in_words(verdicts.JudgeVerdict, text)

    def draft(self, found: Any) -> verdicts.PlanDraft:
        return verdicts.checked(verdicts.PlanDraft, found)


class Receipts:
    """How receipts of other programs are mended and normalised."""

    normal_time = staticmethod(receipts.normal_time)
    normal_uuid = staticmethod(receipts.normal_uuid)
    float_text = staticmethod(receipts.float_text)
    whole = msgspec.to_builtins(SAMPLE_RECEIPT)

    def mended(self, changes: dict[str, Any]) -> list[Any]:
        """A receipt with these fields: what differs from the whole one, and each note."""
        notes: list[repair.Deviation] = []
        read = msgspec.to_builtins(repair.convert({**self.whole, **changes}, receipts.Receipt, "receipt", notes))
        differs = {name: value for name, value in read.items() if value != self.whole[name]}
        return [differs, *sorted(notes, key=str)]


class End:
    """One end of a conversation; a message that it sends is written as its JSON."""

    def __init__(self, end: Connection[Any], message: Callable[[Any], Any] = lambda body: body) -> None:
        self._end = end
        self._message = message

    def receive(self, data: bytes) -> list[Any]:
        return self._end.receive(data)

    def send(self, body: Any) -> bytes:
        return self._end.send(self._message(body))

    def end(self) -> list[Any]:
        return self._end.end()

    @property
    def state(self) -> str:
        return str(self._end.state)

    @property
    def notes(self) -> list[str]:
        return sorted(str(note) for note in getattr(self._end, "notes", ()))


def handle(method: str, params: dict[str, Any]) -> Any:
    """A server of JSON-RPC."""
    if method == "echo":
        return params
    if method == "crash":
        raise RuntimeError("oh")
    if method == "unwritable":
        return {"a": object()}
    raise Fault(-32000, "no", {"why": "because"}) if method == "fault" else Fault(-32601, f"unknown method: {method}")


TRANSLATORS: dict[str, tuple[Any, str]] = {
    "acp incoming": (Acp, "answer everything last_chunk title mode options commands"),
    "acp history": (lambda: HistoryReplay(Acp()), ""),
    "acp meter": (UsageMeter, "context"),
    "acp tool": (
        lambda call="c1": ToolRecord(call),
        "tool kind args paths status exit_code result terminals parent title",
    ),
    "acp content": (acp_content, ""),
    "acp outgoing": (lambda terminals=False: AcpOutgoing(lambda args: [dict(DIFF)], terminals=terminals), ""),
    "acp words": (acp_outgoing, ""),
    "codex exec": (lambda: ExecRecords("t"), ""),
    "codex app-server": (lambda: AppServerOutgoing("thread", "turn", "/w", lambda args: [{"path": "/w/a"}]), ""),
    "codex items": (codex_items, ""),
    "codex words": (codex_outgoing, ""),
    "claude records": (claude_records, ""),
    "claude meaning": (claude, ""),
    "claude tasks": (claude.ClaudeTasks, "starters"),
    "oneshot arguments": (arguments, ""),
    "oneshot content": (content, ""),
    "oneshot lines": (oneshot, ""),
    "oneshot message": (lambda: oneshot.MessageHead(session_id="s1", id="m1", model="model"), ""),
    "pi replies": (pi, ""),
    "sidecar outgoing": (lambda passthrough=False: SidecarOutgoing("/w", passthrough=passthrough), ""),
    "sidecar incoming": (Sidecar, ""),
    "worker outgoing": (
        lambda version=(0, 5), answers=False: worker.WorkerOutgoing(tuple(version), answers=answers),
        "",
    ),
    "worker incoming": (Worker, "busy"),
    "worker errors": (WorkerErrors, ""),
    "worker versions": (versions, ""),
    "a2a messages": (A2a, ""),
    "mcp revisions": (revisions, ""),
    "mcp names": (mcp, ""),
    "goal plan": (plan, ""),
    "heimdall messages": (heimdall, ""),
    "goal verdicts": (Verdicts, ""),
    "sidecar receipts": (Receipts, ""),
    "worker connection": (
        lambda role: End(worker_end.Connection(role), lambda body: msgspec.convert(body, worker_messages.Message)),
        "state",
    ),
    "worker lines": (worker_end, ""),
    "sidecar connection": (
        lambda role: End(sidecar_end.Connection(role), lambda body: msgspec.convert(body, sidecar_end.Envelope)),
        "state notes",
    ),
    "sidecar versions": (sidecar_end, ""),
    "acp connection": (lambda role: End(acp_content.Connection(role), rpc.read_message), "state"),
    "mcp connection": (lambda role: End(mcp.Connection(role), rpc.read_message), "state"),
    "oneshot connection": (lambda role: End(oneshot_end.Connection(role)), "state"),
    "rpc messages": (rpc, ""),
    "rpc server": (jsonrpc, ""),
}
"""By name: a module of functions, or what makes a translator, with what is to be known of it at the end."""
GIVEN = {"access_of": access_of, "about": about, "handle": handle}
"""Arguments that no line can say."""
NONE: Mapping[str, tuple[Any, str]] = {}
"""For a file whose titles begin with modules."""
CHANGES = re.compile(r'(?<="timestamp": ")[^"]+')
THEIRS = re.compile(r"(is no base64|line is not JSON): .*")  # then come the words of a library


def typed(value: Any, hint: Any) -> Any:
    """A JSON value as the argument that a function wants; bytes are written as a text, one letter each."""
    origin = get_origin(hint)
    if hint is Any or value is None:
        return value
    if bytes in (hint, *get_args(hint)):
        return value.encode("latin-1")
    if hint is Event:
        return msgspec.convert(value, AnyEvent)
    if isinstance(value, list) and isinstance(origin, type) and origin is not tuple:
        return [typed(each, get_args(hint)[0]) for each in value]
    try:
        return msgspec.convert(value, hint)
    except TypeError:
        return value


def called(target: Any, line: str) -> Any:
    name, _, rest = line.partition(" ")
    function = getattr(target, name)
    if not callable(function):
        return function
    made = function.__init__ if isinstance(function, type) else function
    hints = get_type_hints(made, None, {**vars(typing), **vars(collections.abc)})
    names = iter(hint for hint in hints if hint not in GIVEN)
    positional, named = [], {each: GIVEN[each] for each in hints if each in GIVEN}
    while rest := rest.strip():
        key = re.match(r"(\w+)=", rest)
        value, end = json.JSONDecoder().raw_decode(rest, key.end() if key else 0)
        rest = rest[end:]
        if key:
            named[key[1]] = typed(value, hints.get(key[1], Any))
        else:
            positional.append(typed(value, hints.get(next(names, ""), Any)))
    return function(*positional, **named)


def plain(value: Any) -> Any:
    """As JSON, with long texts cut."""
    if isinstance(value, str) and len(value) > 300:
        return f"{value[:20]}... {len(value)} letters"
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple | set) else value


def bare(value: Any) -> Any:
    """As JSON has it, without the fields that are as they always are: a new field changes no conversation."""
    if isinstance(value, dict):
        return {key: bare(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [bare(each) for each in value]
    if not isinstance(value, msgspec.Struct) or value.__struct_config__.array_like:
        return msgspec.to_builtins(value)
    config, found = value.__struct_config__, {}
    if config.tag_field is not None:
        found[config.tag_field] = config.tag
    for each in msgspec.structs.fields(value):
        usual = each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
        if (own := getattr(value, each.name)) is not msgspec.UNSET and (own != usual or type(own) is not type(usual)):
            found[each.encode_name] = bare(own)
    return found


def shown(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    text = json.dumps(plain(bare(value)))
    kind = f"{type(value).__name__} " if isinstance(value, msgspec.Struct) else ""
    return CHANGES.sub("NOW", ANY_ID.sub("UUID", kind + text))


def answer(value: Any) -> str:
    if not isinstance(value, Exception):
        return f"< {shown(value)}\n"
    more = [getattr(value, name, None) for name in ("code", "details", "data")]
    said = THEIRS.sub(r"\1", f"! {type(value).__name__}: {value}".replace("\n", "\\n"))
    return " ".join([said, *(shown(each) for each in more if each)]) + "\n"


def answers(target: Any, line: str) -> Iterator[str]:
    try:
        value = called(target, line)
    except (TreadleError, ValueError, Fault) as error:
        value = error
    several = isinstance(value, list | Iterator) or (
        isinstance(value, tuple) and any(isinstance(each, msgspec.Struct) for each in value)
    )
    yield from map(answer, value if several else [value])


def played(text: str, translators: Mapping[str, tuple[Any, str]]) -> Iterator[str]:
    """The conversations of a file with what comes of them now."""
    for talk in re.split(r"^# ", text, flags=re.M)[1:]:
        title, *lines = talk.splitlines()
        name = title.partition(":")[0]
        target, known = translators.get(name) or (resolve_name(f"treadle.{name}"), "")
        told = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
        yield f"# {title}\n"
        if not isinstance(target, ModuleType):
            making = told.pop(0) if told[0].startswith("new") else "new"
            target = called(SimpleNamespace(new=target), making)
            yield f"> {making}\n" if making != "new" else ""
        for line in told:
            yield f"> {line}\n"
            yield from answers(target, line)
        end = {name: found for name in known.split() if (found := getattr(target, name)) not in (None, "", [], {})}
        yield f"= {shown(end)}\n\n" if end else "\n"


def hold(name: str, translators: Mapping[str, tuple[Any, str]] = NONE) -> None:
    """What comes of the conversations of this file is what is written there."""
    path = f"translations/{name}.txt"
    same(path, "".join(played((GOLDEN / path).read_text(), translators)), own_version="")


@pytest.mark.parametrize("wire", sorted({"wire", *(name.partition(" ")[0] for name in TRANSLATORS)}))
def test_what_is_translated_comes_out_as_it_did(wire: str) -> None:
    hold(wire, TRANSLATORS)


def test_every_update_for_an_editor_fits_the_official_schema() -> None:
    updates = re.findall(r'^< (\{"sessionUpdate": .*)', (GOLDEN / "translations" / "acp.txt").read_text(), re.M)
    for update in updates:
        acp.schema.SessionNotification.model_validate({"sessionId": "s", "update": json.loads(update)})
    assert len(updates) > 30
