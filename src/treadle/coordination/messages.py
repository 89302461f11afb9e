"""Typed messages: validated with a line in the audit trail, and kept in an inbox until they are acknowledged."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator

from treadle.coordination.planning import Planning, make_dirs, read_text
from treadle.errors import ConfigError, NotFound
from treadle.io.files import append_line, read_lines
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.heimdall.messages import faults, read

if TYPE_CHECKING:
    from treadle.wire.heimdall.connection import Connection

EVERYBODY = "*"


def validate(planning: Planning, data: bytes) -> dict[str, Any]:
    """The report on one message: `{"valid": bool, "errors": [...]}`, whatever the bytes are."""
    message, found = read(data)
    if found:
        planning.note("validate", "reject", dumps(found))
    else:
        planning.note("validate", "accept", message["msg_id"])
    return {"valid": not found, "errors": found}


class Inbox:
    """Messages between agents, in `protocol/messages.jsonl`. Some lines post a message, others acknowledge one."""

    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.path = planning.live_path("protocol", "messages.jsonl")

    def post(self, sender: str, message: Any, to: str = EVERYBODY, *, once: bool = False) -> None:
        """Keep a valid message for `to`: a HAID, a role, or everybody. With `once`, one that is there is left."""
        if found := faults(message):
            self.planning.log("message", "reject", dumps(found))
            raise ConfigError(f"not a valid message: {'; '.join(found)}")
        make_dirs(os.path.dirname(self.path))
        with self.planning.lock("messages"):  # looked and written as one step, so that an id is used once
            if message["msg_id"] in {entry["message"]["msg_id"] for entry in self._entries("message")}:
                if once:
                    return
                raise ConfigError(f"there is already a message {message['msg_id']!r}", hint="give it another msg_id")
            self._append({"ts": self.planning.now(), "to": to, "by": sender, "message": message})
        self.planning.log("message", "post", f"{message['msg_id']} {sender}->{to}")

    def read(self, haid: str, *, acknowledged: bool = False) -> list[dict[str, Any]]:
        """The messages for this identity and its role, oldest first, without those that it has acknowledged."""
        names = {haid, haid.partition("/")[2], EVERYBODY} - {""}
        acks = {entry["ack"] for entry in self._entries("ack") if entry["by"] == haid}
        found = []
        for entry in self._entries("message"):
            done = entry["message"]["msg_id"] in acks
            if entry["to"] in names and entry["by"] != haid and (acknowledged or not done):
                found.append({**entry, "acknowledged": done})
        self.planning.note("message", "read", f"{haid} count={len(found)}")
        return found

    def thread(self, msg_id: str) -> list[dict[str, Any]]:
        """A message, the one that it answers and so on, and everything that answers one of them, oldest first."""
        entries = list(self._entries("message"))
        wanted, size = {msg_id}, 0
        while len(wanted) > size:
            size = len(wanted)
            for message in (entry["message"] for entry in entries):
                linked = {message["msg_id"], message.get("reply_to", message["msg_id"])}
                wanted |= linked if linked & wanted else set()
        return [entry for entry in entries if entry["message"]["msg_id"] in wanted]

    def search(self, text: str) -> list[dict[str, Any]]:
        """The messages in which this text occurs, in upper or lower case, oldest first."""
        return [entry for entry in self._entries("message") if text.lower() in dumps(entry["message"]).lower()]

    def acknowledge(self, haid: str, msg_ids: Iterable[str]) -> list[str]:
        """Mark these as dealt with. Returns those that could be acknowledged."""
        open_ids = {entry["message"]["msg_id"] for entry in self.read(haid)}
        done = [msg_id for msg_id in dict.fromkeys(msg_ids) if msg_id in open_ids]
        for msg_id in done:
            self._append({"ts": self.planning.now(), "ack": msg_id, "by": haid})
            self.planning.log("message", "ack", f"{msg_id} {haid}")
        return done

    def _append(self, entry: dict[str, Any]) -> None:
        append_line(self.path, dumps(entry).encode(), mode=0o644)

    def _entries(self, kind: str) -> Iterator[dict[str, Any]]:
        for line in read_lines(self.path)[0]:
            try:
                entry = loads(line)
            except ValueError:
                continue  # torn by a crash, or damaged by hand
            if isinstance(entry, dict) and kind in entry and "by" in entry:
                if kind == "ack" or isinstance(entry["message"], dict) and not faults(entry["message"]):
                    yield entry


# Receives messages one per line, and records the outcome in the audit trail.


def receive(planning: Planning, lines: Iterable[bytes]) -> Iterator[tuple[Hashable, int, list[str]]]:
    """Validate on receipt: for each attempt, the state it leads to, its number, and its faults.

    It ends when a message is accepted or two have failed. If the lines end before that, it escalates without faults.
    """
    from treadle.wire.heimdall.connection import ACCEPTED, ESCALATED, Connection  # not light: it needs `typing`

    receiver, attempts = Connection("receiver"), 0
    for found in _attempts(receiver, lines):
        attempts += 1
        if receiver.state == ACCEPTED:
            planning.note("validate", "accept" if attempts == 1 else "accept-retry", f"attempt={attempts}")
        elif receiver.state == ESCALATED:
            planning.note("validate", "escalate", f"attempts={attempts}")
        yield receiver.state, attempts, found
        if receiver.state in (ACCEPTED, ESCALATED):
            return
    planning.note("validate", "escalate", f"stream-end attempts={attempts}")
    yield ESCALATED, attempts, []


def _attempts(receiver: Connection, lines: Iterable[bytes]) -> Iterator[list[str]]:
    """The faults of each message as it arrives; a valid one has none."""
    from treadle.wire.heimdall.connection import Invalid

    for line in lines:
        for item in receiver.receive(line):
            yield item.faults if isinstance(item, Invalid) else []
    try:
        for _ in receiver.end():
            yield []
    except Invalid as error:
        yield error.faults


# The only part that reads a gate's report.json, and only three of its fields; the rest is up to the gate.


def to_message(planning: Planning, report: str, sender: str, msg_id: str, wave: str = "") -> dict[str, Any]:
    """A gate_report message that points to the report without copying its content."""
    path = os.path.abspath(report)
    text = read_text(path)
    if text is None:
        raise NotFound(f"no report at {path}", hint="a gate that left no report has not passed: run it again")
    try:
        found = loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not a report: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("gate_id"), str) or not found["gate_id"]:
        raise ConfigError(f"{path} is not a report: it names no gate_id")
    if found.get("status") not in ("pass", "fail"):
        raise ConfigError(f"{path} is not a report: its status is neither pass nor fail")
    message: dict[str, Any] = {
        "type": "gate_report",
        "from": sender,
        "msg_id": msg_id,
        "ts": planning.now(),
        "gate_id": found["gate_id"],
        "status": found["status"],
        "report_ref": path,
    }
    if chosen := wave or _wave(found.get("wave")):
        message["wave"] = chosen
    planning.note("gate", "to-message", f"{message['gate_id']}/{message['status']} ref={path}")
    return message


def _wave(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, (int, float)) else ""
