"""The stored sessions: how one is found, and exported as a document."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from treadle.agent.messages import ChatMessage, ToolResult, UserMessage
from treadle.agent.transcript import (
    FORMAT,
    Header,
    Listing,
    Record,
    Rewound,
    Transcript,
    TurnOver,
    decode,
    directory_of,
    is_id,
    listed,
    listing_of,
)
from treadle.errors import NotFound
from treadle.io import paths
from treadle.io.files import opened
from treadle.redact import Redactor
from treadle.sessions.totals import Totals

# The stored sessions, and how one is found. Only the two ends of a history are read: the end holds what is listed
# (`transcript.Listing`), as of the last turn that ended.

TAIL = 16 << 10


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of sessions."""

    id: str
    name: str | None
    cwd: str
    model: str
    created: float
    updated: float
    prompt: str
    """The beginning of the first prompt."""
    turns: int


def list_sessions(cwd: str | None = None) -> list[ListedSession]:
    """All sessions, or those of one working directory, latest first. Unreadable ones are left out."""
    return list(_entries(cwd))


def latest(cwd: str | None, state: str | None = None) -> ListedSession | None:
    """The session to continue in this directory, of those kept in `state` (None: in our own place)."""
    # One that only ran a command cannot be continued.
    return next((entry for entry in _entries(cwd, state) if entry.turns), None)


def find_session(wanted: str, cwd: str | None = None) -> str:
    """A session's id from its id, a unique beginning of it, or its name. An empty string means the latest of `cwd`."""
    if is_id(wanted) and os.path.isdir(directory_of(wanted)):
        return wanted
    if not wanted:
        if (last := latest(cwd)) is not None:
            return last.id
        raise NotFound(f"no session to continue in {cwd}", hint="start one, or name one: --resume ID")
    entries = list_sessions()
    found = [entry.id for entry in entries if entry.name == wanted] or [
        entry.id for entry in entries if entry.id.startswith(wanted)
    ]
    if len(found) != 1:
        what = "no session matches" if not found else f"{len(found)} sessions match"
        raise NotFound(f"{what} {wanted!r}", hint="`treadle sessions` lists them")
    return found[0]


def _entries(cwd: str | None, state: str | None = None) -> Iterator[ListedSession]:
    for updated, session_id, path in sorted(_histories(state or paths.state_dir()), reverse=True):
        with suppress(OSError), opened(path) as file:
            header = next(iter(decode([file.readline()])), None)
            if isinstance(header, Header) and header.format <= FORMAT and cwd in (None, header.cwd):
                listing = _listing(file, header)
                if header.sdk and _deleted(header, listing.turns):
                    continue
                yield ListedSession(
                    id=session_id,
                    name=listing.name,
                    cwd=header.cwd,
                    model=listing.model,
                    created=header.created,
                    updated=updated,
                    prompt=listing.prompt,
                    turns=listing.turns,
                )


def _deleted(header: Header, turns: int) -> bool:
    from treadle.agent.claude_lines import deleted  # imported here because few sessions are begun by an SDK

    return deleted(header, turns)


def _histories(state: str) -> Iterator[tuple[float, str, str]]:
    """(when it was last written to, id, path)"""
    root = os.path.join(state, "sessions")
    for session_id in os.listdir(root) if os.path.isdir(root) else []:
        path = os.path.join(root, session_id, "history.jsonl")
        with suppress(OSError):
            yield os.stat(path).st_mtime, session_id, path


def _listing(file: BinaryIO, header: Header) -> Listing:
    start, size = file.tell(), os.fstat(file.fileno()).st_size
    length = TAIL
    while start + length < size:
        found = _from_tail(_read(file, size - length)[1:])
        if found is not None:
            return found
        length *= 16
    lines = _read(file, start)
    return _from_tail(lines) or listing_of(header, decode(lines))


def _read(file: BinaryIO, start: int) -> list[bytes]:
    file.seek(start)
    return file.read().split(b"\n")[:-1]


def _from_tail(lines: list[bytes]) -> Listing | None:
    """Made from the last record with a listing and what follows it; None when there is none, or too little was read."""
    later: list[Record] = []
    for line in reversed(lines):
        for record in decode([line]):
            if isinstance(record, TurnOver | Rewound) and record.listing is not None:
                listing = record.listing
                for one in reversed(later):
                    listing = listed(listing, one)
                return listing
            if isinstance(record, Rewound):
                return None
            later.append(record)
    return None


# A saved session as a document: Markdown to read, JSON for programs. Pure.
#
# The document leaves the machine, so secrets are removed. The history itself keeps them, because resuming needs all
# of it.

TITLE = 80
"""How many characters of the first prompt make a title."""


class SessionDocument:
    """The contents of a session, redacted, before they get a form."""

    def __init__(self, transcript: Transcript, redactor: Redactor) -> None:
        self._clean = redactor.text
        self.id = transcript.header.id
        self.cwd = transcript.header.cwd
        self.model = transcript.model
        self.created = transcript.header.created
        self.name = transcript.name
        self.turns = transcript.listing.turns
        self.messages = [self._redacted(message) for message in transcript.everything()]
        self.totals = Totals.of(transcript.spent())
        first = " ".join(self._clean(transcript.listing.prompt).split())
        self.title = self._clean(self.name or "") or first[:TITLE] or f"session {self.id}"

    def about(self) -> str:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.created))
        cost = "cost unknown" if self.totals.cost_usd is None else f"${self.totals.cost_usd:.4f}"
        tokens = f"{self.totals.total_tokens} tokens" if self.totals.calls else "tokens unknown"
        return f"session {self.id} · {day} · {self.cwd} · {self.model} · {self.turns} turns · {tokens} · {cost}"

    def _redacted(self, message: ChatMessage) -> dict[str, Any]:
        if isinstance(message, UserMessage):
            return {"role": "user", "text": self._clean(message.text)}
        if isinstance(message, ToolResult):
            text = self._clean(message.text)
            return {"role": "tool", "call": message.call, "name": message.name, "ok": message.ok, "text": text}
        calls = [{"id": one.id, "name": one.name, "arguments": self._clean(one.arguments)} for one in message.calls]
        return {"role": "assistant", "text": self._clean(message.text), "model": message.model, "calls": calls}


def as_json(document: SessionDocument) -> dict[str, Any]:
    usage = document.totals
    return {
        "id": document.id,
        "name": document.name,
        "cwd": document.cwd,
        "model": document.model,
        "created": document.created,
        "turns": document.turns,
        "total_tokens": usage.total_tokens if usage.calls else None,
        "cost_usd": usage.cost_usd if usage.calls else None,
        "messages": document.messages,
    }


def as_markdown(document: SessionDocument, *, tools: bool = True) -> str:
    """Without `tools`, each call is shown only by its name and subject."""
    parts = [f"# {document.title}\n\n{document.about()}\n"]
    for message in document.messages:
        match message["role"]:
            case "user":
                parts.append(f"## You\n\n{message['text']}\n")
            case "tool" if tools:
                failed = "" if message["ok"] else ", which failed"
                parts.append(f"Result of `{message['name']}`{failed}:\n\n{fenced(message['text'])}\n")
            case "assistant":
                reply = [message["text"]] if message["text"].strip() else []
                reply += [_call(call, tools) for call in message["calls"]]
                parts.append("## Agent\n\n" + "\n\n".join(reply) + "\n")
    return "\n".join(parts)


def _call(call: dict[str, Any], whole: bool) -> str:
    if whole:
        return f"Calls `{call['name']}`:\n\n{fenced(call['arguments'])}"
    about = " ".join(call["arguments"].split())
    return f"- `{call['name']}` `{about[:100].replace('`', chr(39))}`"


def fenced(text: str) -> str:
    """A block of code, with a fence longer than any inside."""
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"
