"""The stored sessions: how one is found, and exported as a document."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import msgspec

from treadle import __version__
from treadle.agent.messages import ChatMessage, ToolResult, UserMessage
from treadle.agent.transcript import (
    FORMAT,
    Header,
    Listing,
    Record,
    Rewound,
    Transcript,
    TurnBegan,
    TurnOver,
    decode,
    directory_of,
    ending,
    is_id,
    listed,
    listing_of,
    remove,
)
from treadle.errors import NotFound, StorageError
from treadle.io import paths
from treadle.io.files import opened
from treadle.redact import Redactor
from treadle.sessions import atif
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
    ending: str = ""
    """How the last turn ended, and why."""
    theirs: str = ""


def list_sessions(cwd: str | None = None, *, theirs: bool = False) -> list[ListedSession]:
    """All sessions, or those of one working directory, latest first. Unreadable ones are left out, and without `theirs`
    what stands for a session of an outside agent."""
    return [entry for entry in _entries(cwd) if theirs or not entry.theirs]


def latest(cwd: str | None, state: str | None = None) -> ListedSession | None:
    """The session to continue in this directory, of those kept in `state` (None: in our own place)."""
    # One that only ran a command cannot be continued.
    return next((entry for entry in _entries(cwd, state) if entry.turns and not entry.theirs), None)


def find_session(wanted: str, cwd: str | None = None) -> str:
    """A session's id from its id, a unique beginning of it, or its name. An empty string means the latest of `cwd`."""
    if is_id(wanted) and os.path.isdir(directory_of(wanted)):
        return wanted
    if not wanted:
        if (last := latest(cwd)) is not None:
            return last.id
        raise NotFound(f"no session to continue in {cwd}", hint="start one, or name one: --resume ID")
    entries = list_sessions(theirs=True)
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
                    ending=ending(listing, os.path.dirname(path)),
                    theirs=header.theirs,
                )


@contextmanager
def under_way(theirs: str, cwd: str, prompt: str) -> Iterator[None]:
    """While an outside agent works (AGENT:ID) it is listed. If it is killed with us, it stays listed, and says so."""
    try:
        transcript = Transcript.create(cwd=cwd, model="", theirs=theirs)
    except StorageError:  # the work itself needs none
        yield
        return
    try:
        transcript.append(TurnBegan(turn="", prompt=prompt, ts=time.time()))
        yield
    finally:
        transcript.close()
        remove(transcript.header.id)


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
                listing = listed(record.listing, record)
                for one in reversed(later):
                    listing = listed(listing, one)
                return listing
            if isinstance(record, Rewound):
                return None
            later.append(record)
    return None


# A saved session as a document: Markdown to read, a trajectory (ATIF) for programs. Pure.
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
        self.ending = self._clean(ending(transcript.listing, transcript.directory))
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


def as_atif(document: SessionDocument) -> bytes:
    """The session as a trajectory: each step is a prompt, or a reply with its tool calls and their results."""
    steps: list[atif.TrajectoryStep] = []
    for message in document.messages:
        if message["role"] == "tool" and steps and steps[-1].source == "agent":
            _observe(steps[-1], message)
        elif message["role"] == "user":
            steps.append(atif.TrajectoryStep(step_id=len(steps) + 1, source="user", message=message["text"]))
        elif message["role"] == "assistant":
            calls = [_called(call) for call in message["calls"]] or None
            step = atif.TrajectoryStep(
                step_id=len(steps) + 1, source="agent", message=message["text"], tool_calls=calls
            )
            step.model_name = message["model"] or None
            steps.append(step)
    used = document.totals
    metrics: dict[str, int | float] = {"total_steps": len(steps)}
    if used.calls and not used.estimated:
        metrics |= {
            "total_prompt_tokens": used.prompt_tokens,
            "total_completion_tokens": used.output_tokens,
            "total_cached_tokens": used.cache_read_tokens,
            **({} if used.cost_usd is None else {"total_cost_usd": used.cost_usd}),
        }
    names = ("name", "cwd", "created", "turns", "ending")
    trajectory = atif.Trajectory(
        schema_version=atif.VERSION,
        session_id=document.id,
        agent=atif.Who(name="treadle", version=__version__, model_name=document.model),
        steps=steps,
        final_metrics=metrics,
        extra={name: value for name in names if (value := getattr(document, name)) is not None},
    )
    return msgspec.json.format(msgspec.json.encode(trajectory)) + b"\n"


def _called(call: dict[str, Any]) -> atif.Called:
    try:
        given = msgspec.json.decode(call["arguments"])
    except msgspec.MsgspecError:
        given = None
    arguments = given if isinstance(given, dict) else {"arguments": call["arguments"]}
    return atif.Called(tool_call_id=call["id"], function_name=call["name"], arguments=arguments)


def _observe(step: atif.TrajectoryStep, message: dict[str, Any]) -> None:
    known = message["call"] in [call.tool_call_id for call in step.tool_calls or ()]
    step.observation = step.observation or atif.Observation(results=[])
    result = atif.CallResult(source_call_id=message["call"] if known else None, content=message["text"])
    step.observation.results.append(result)
    if not message["ok"]:
        step.extra = {"failed_calls": [*(step.extra or {}).get("failed_calls", ()), message["call"]]}


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
    if document.ending not in ("", "completed"):
        parts.append(f"The last turn: {document.ending}\n")
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
