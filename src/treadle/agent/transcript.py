"""A session on disk: append-only JSON lines that are never rewritten, and the resume format.

    sessions/ID/history.jsonl   one record per line, the first a Header
    sessions/ID/lock            held while a process has the session open
    sessions/ID/backups/        files as they were before a turn changed them
    sessions/ID/trees/          the workspace as it was around each turn
    sessions/ID/output/         tool output too long for the conversation
    sessions/ID/images/         images that the model was shown

What the model sees is derived from the records (`view`): pruning, compaction, clearing and rewinding are records too.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Literal, TypeAlias

import msgspec

from treadle import __version__
from treadle.agent.messages import AssistantMessage, ChatMessage, Image, ToolCall, ToolResult, UserMessage
from treadle.agent.tools.images import images_of
from treadle.errors import Busy, ConfigError, NotFound, StorageError
from treadle.events import ImageFile, Usage
from treadle.io import descriptors, files, paths, scratch
from treadle.io.files import opened, read
from treadle.wire.common.connection import json_line
from treadle.wire.common.records import Newer

# The records of a session's history: one per line, distinguished by `type`.

FORMAT = 1
RUNNING, KILLED = "running", "killed: its process ended in the middle of the turn"
LISTED = 500
"""How many characters of a prompt a list needs at most."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="session"):
    format: int
    id: str
    cwd: str
    model: str
    created: float
    version: str
    name: str | None = None
    forked_from: str | None = None
    denied: tuple[str, ...] = ()
    """The deny rules that it began with, besides those of the settings. They hold when it is resumed or forked."""
    sdk: bool = False
    """Whether an SDK of Claude began it: that lists, forks and deletes sessions in Claude's own place."""
    theirs: str = ""
    """The session of an outside agent, AGENT:ID, that it stands for while that works."""


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    message: ChatMessage
    turn: str = ""
    ts: float = 0.0


class TurnBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_began"):
    turn: str
    prompt: str
    ts: float = 0.0


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What the list of sessions shows of one. Records that end something carry it, so that the list need only read
    the end of a history.
    """

    model: str
    name: str | None = None
    prompt: str = ""
    """The beginning of the first prompt."""
    turns: int = 0
    ending: str = ""
    """How the last turn ended, and why; RUNNING until it has, empty once it was taken back."""


class TurnOver(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_over"):
    turn: str
    outcome: str
    reason: str = ""
    """Of one that failed."""
    ts: float = 0.0
    listing: Listing | None = None


class Spent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="spent"):
    usage: Usage


class Pruned(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="pruned"):
    calls: tuple[str, ...]


class Compacted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="compacted"):
    """The view is now this summary and the last `retained` messages of what it was."""

    summary: str
    retained: int = msgspec.field(name="kept")


class Cleared(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cleared"):
    pass


class Rewound(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="rewound"):
    """The conversation is as it was before `turn` began."""

    turn: str
    listing: Listing | None = None


class BackedUp(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="backed_up"):
    """What `path` held before `turn` first changed it; without a blob, it did not exist."""

    turn: str
    path: str
    blob: str | None
    mode: int = 0o644


class TurnTrees(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_trees"):
    """The workspace before and after what a turn did, as trees of the session's own store."""

    turn: str
    before: str
    after: str
    lost: tuple[str, ...] = ()
    """What it changed that trees do not hold: ignored and large files."""
    more: int = 0
    """How many more of these there are."""
    modes: dict[str, tuple[str, str]] = {}
    """Permissions before and after, in octal."""
    emptied: tuple[str, ...] = ()
    """Directories without files that are gone, and those that came."""
    made: tuple[str, ...] = ()
    heads: dict[str, str] = {}
    """The commit that was checked out before, where another one is: of the workspace (empty), and of submodules."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What came of going back: absolute paths that were written or removed, and what is not as it was."""

    changed: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    more: int = 0
    heads: dict[str, tuple[str, str]] = {}
    """The commit that is checked out, and the one from before."""
    unseen: tuple[int, ...] = ()
    """Numbers of turns that ran commands, of which no tree was taken."""


class Named(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="named"):
    name: str


class Switched(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="switched"):
    """From here on another model answers."""

    model: str


Record: TypeAlias = (
    Header
    | MessageRecord
    | TurnBegan
    | TurnOver
    | Spent
    | Pruned
    | Compacted
    | Cleared
    | Rewound
    | BackedUp
    | TurnTrees
    | Named
    | Switched
)


@cache
def _decoder() -> msgspec.json.Decoder[Record]:
    """Made when a history is read, because making it takes longer than everything else about a new one."""
    return msgspec.json.Decoder(Record)


def decode(lines: Iterable[bytes]) -> list[Record]:
    """The records among these lines; others are left out."""
    records: list[Record] = []
    for line in lines:
        with suppress(msgspec.DecodeError, RecursionError):
            records.append(_decoder().decode(line))
    return records


def effective(records: list[Record]) -> list[Record]:
    """The records without what was rewound."""
    remaining: list[Record] = []
    for record in records:
        if isinstance(record, Rewound):
            for index in range(len(remaining) - 1, -1, -1):
                found = remaining[index]
                if isinstance(found, TurnBegan) and found.turn == record.turn:
                    del remaining[index:]
                    break
        else:
            remaining.append(record)
    return remaining


def listing_of(header: Header, records: list[Record]) -> Listing:
    listing = Listing(model=header.model, name=header.name)
    for record in records:
        if isinstance(record, Named | Switched):
            listing = listed(listing, record)
    ran = [record for record in records if isinstance(record, TurnBegan | TurnOver | Rewound)]
    ending = listed(listing, ran[-1]).ending if ran else ""
    turns = [record for record in effective(records) if isinstance(record, TurnBegan)]
    prompt = _words(turns[0].prompt)[:LISTED] if turns else ""
    return msgspec.structs.replace(listing, turns=len(turns), prompt=prompt, ending=ending)


def _words(prompt: str) -> str:
    if not prompt.startswith("<handover>"):
        return prompt
    from treadle.sessions.handover import own_words

    return own_words(prompt)


def listed(listing: Listing, record: Record) -> Listing:
    """What the list shows after one more record."""
    match record:
        case TurnBegan(prompt=prompt):
            first = listing.prompt if listing.turns else _words(prompt)[:LISTED]
            return msgspec.structs.replace(listing, turns=listing.turns + 1, prompt=first, ending=RUNNING)
        case Named(name=name):
            return msgspec.structs.replace(listing, name=name)
        case Switched(model=model):
            return msgspec.structs.replace(listing, model=model)
        case TurnOver(outcome=outcome, reason=reason, listing=last):
            ending = f"{outcome}: {reason}" if reason else outcome
            return msgspec.structs.replace(last or listing, ending=ending)
        case Rewound(listing=last):
            return msgspec.structs.replace(last or listing, ending="")
    return listing


def ending(listing: Listing, directory: str) -> str:
    """How the last turn of the session in this directory ended: one that no process holds does not run any more."""
    running = listing.ending == RUNNING and files.is_locked(os.path.join(directory, "lock"))
    return KILLED if listing.ending == RUNNING and not running else listing.ending


LONGEST_ID = 128


RestoreTrees: TypeAlias = Callable[[Sequence[TurnTrees]], Restored]
Folder: TypeAlias = Literal["backups", "output", "images", "trees"]
INTERRUPTED = "[interrupted: this tool did not finish]"
PRUNED = "[this output was removed to save room; run the tool again if it is needed]"


class Transcript:
    """The open history of one session. Appending raises StorageError when the disk refuses; nothing is half written."""

    def __init__(self, header: Header, directory: str, records: list[Record], *, persist: bool = True) -> None:
        self.header = header
        self.directory = directory
        self._records: list[Record] | None = records
        self.skipped = 0
        self.killed = False
        """Whether the turn before was cut off with its process."""
        self._persist = persist
        self._lock: files.locked | None = None
        self.listing = listing_of(header, records)
        self._backed_up: set[tuple[str, str]] = {
            (record.turn, record.path) for record in records if isinstance(record, BackedUp)
        }

    @classmethod
    def create(
        cls,
        *,
        cwd: str,
        model: str,
        session_id: str | None = None,
        name: str | None = None,
        persist: bool = True,
        forked: Transcript | None = None,
        denied: tuple[str, ...] = (),
        sdk: bool = False,
        theirs: str = "",
    ) -> Transcript:
        session_id = session_id or str(uuid.uuid4())
        header = Header(
            format=FORMAT,
            id=session_id,
            cwd=cwd,
            model=model,
            created=time.time(),
            version=__version__,
            name=name,
            forked_from=forked.header.id if forked else None,
            denied=denied,
            sdk=sdk,
            theirs=theirs,
        )
        directory = directory_of(session_id) if persist else scratch.make("session")
        inherited: list[Record] = []
        if forked:
            inherited = [
                _inherited(record, name)
                for record in forked.records
                if not isinstance(record, BackedUp | TurnTrees | Named)
            ]
        transcript = cls(header, directory, inherited, persist=persist)
        if persist:
            paths.private_dir(directory)
            transcript._lock = _hold(directory, session_id)
        try:
            if os.path.exists(transcript._file):
                raise ConfigError(f"there is already a session {session_id}", hint=f"resume it: --resume {session_id}")
            if forked:
                transcript._inherit_images(forked)
            transcript._write([header, *inherited])
        except BaseException:
            transcript.close()
            if os.path.exists(transcript._file) and not os.path.getsize(transcript._file):
                scratch.remove(directory)  # on a full disk: nothing that could be resumed
            raise
        return transcript

    def _inherit_images(self, forked: Transcript) -> None:
        messages = [record.message for record in self.records if isinstance(record, MessageRecord)]
        for image in {image for message in messages for image in images_of(message)}:
            with suppress(StorageError):
                self.keep("images", image.name, forked.image(image))

    @classmethod
    def open(cls, session_id: str) -> Transcript:
        """Open to continue. Raises Busy when another process has it open."""
        directory = directory_of(session_id)
        if not os.path.isdir(directory):
            return cls.read(session_id)  # reports that there is none
        lock = _hold(directory, session_id)
        try:  # read it now that no one else appends to it
            transcript = cls.read(session_id)
            if theirs := transcript.header.theirs:
                raise NotFound(f"the session {session_id} is of another agent", hint=f"--resume {theirs}")
        except BaseException:
            lock.__exit__(None, None, None)
            raise
        transcript._lock = lock
        if transcript.listing.ending == RUNNING:
            outcome, _, reason = KILLED.partition(": ")
            over = TurnOver(turn="", outcome=outcome, reason=reason, ts=time.time(), listing=transcript.listing)
            with suppress(StorageError):  # what cannot be written says so with the next turn
                transcript.append(over)
            transcript.killed = True
        return transcript

    @classmethod
    def read(cls, session_id: str) -> Transcript:
        """Load without holding it: for lists, forks and looking."""
        directory = directory_of(session_id)
        records, skipped = _load(history_of(session_id))
        if not records or not isinstance(records[0], Header):
            raise NotFound(f"no session {session_id!r}", hint="`treadle sessions` lists them")
        transcript = cls(records[0], directory, records[1:])
        transcript.skipped = skipped
        return transcript

    @property
    def _file(self) -> str:
        return os.path.join(self.directory, "history.jsonl")

    def append(self, *records: Record, sync: bool = False) -> None:
        self._write(records, sync=sync)
        for record in records:
            self.listing = listed(self.listing, record)
        if self._persist:
            self._records = None
        elif self._records is not None:
            self._records.extend(records)

    def _write(self, records: Iterable[Record], *, sync: bool = False) -> None:
        if self._persist:
            files.append_lines(self._file, [json_line(record)[:-1] for record in records], sync=sync)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.__exit__(None, None, None)
            self._lock = None
        if not self._persist:
            scratch.remove(self.directory)

    # What the records say

    @property
    def records(self) -> list[Record]:
        """All but the header, read from disk: a session that goes on and on must not fill memory."""
        return _load(self._file)[0][1:] if self._records is None else self._records

    @property
    def name(self) -> str | None:
        return self.listing.name

    @property
    def model(self) -> str:
        return self.listing.model

    def view(self) -> list[ChatMessage]:
        """The conversation as the model sees it, with every tool call answered."""
        messages: list[ChatMessage] = []
        for record in effective(self.records):
            match record:
                case MessageRecord(message=message):
                    messages.append(message)
                case Pruned(calls=calls):
                    pruned = frozenset(calls)
                    messages = [prune(message, pruned) for message in messages]
                case Compacted(summary=summary, retained=count):
                    # it was counted in what the model saw, where every call had its result.
                    messages = [UserMessage(text=summary), *(well_formed(messages)[-count:] if count else [])]
                case Cleared():
                    messages = []
        return well_formed(messages)

    def everything(self) -> list[ChatMessage]:
        """Everything that was said and not rewound, also what the model no longer sees."""
        return [record.message for record in effective(self.records) if isinstance(record, MessageRecord)]

    def turns(self) -> list[TurnBegan]:
        """The turns that still count, oldest first."""
        return [record for record in effective(self.records) if isinstance(record, TurnBegan)]

    def spent(self) -> list[Usage]:
        """All usage ever: rewinding does not give tokens back."""
        return [record.usage for record in self.records if isinstance(record, Spent)]

    # Files

    def back_up(self, turn: str, path: str) -> None:
        """Keep what `path` holds now, once per turn, before it is changed."""
        if (turn, path) in self._backed_up:
            return
        blob, mode = None, 0o644
        try:
            with opened(descriptors.open_file(path)) as file:
                data = file.read()
                mode = os.fstat(file.fileno()).st_mode & 0o7777
        except FileNotFoundError:
            pass
        except OSError as error:
            raise files.storage_error(error, path, "back up") from error
        else:
            from hashlib import sha256

            blob = sha256(data).hexdigest()
            self.keep("backups", blob, data)
        self.append(BackedUp(turn=turn, path=path, blob=blob, mode=mode))
        self._backed_up.add((turn, path))

    @property
    def outputs(self) -> list[str]:
        """Where the whole of what was too long for this conversation is, also for what it inherited."""
        others = [directory_of(self.header.forked_from)] if self.header.forked_from else []
        return [os.path.join(directory, "output") for directory in (self.directory, *others)]

    def keep_image(self, data: bytes, suffix: str) -> str:
        """Store an image that the model is shown. Returns its name."""
        from hashlib import sha256

        name = f"{sha256(data).hexdigest()[:32]}.{suffix}"
        self.keep("images", name, data)
        return name

    def image_file(self, image: Image) -> ImageFile:
        path = os.path.join(self.directory, "images", os.path.basename(image.name))
        return ImageFile(path=path, media_type=image.media_type, size=image.size)

    def image(self, image: Image) -> bytes:
        """The bytes of a stored image. Raises StorageError when they no longer exist."""
        return read(self.image_file(image).path)

    def folder(self, name: Folder) -> str:
        return paths.private_dir(os.path.join(self.directory, name))

    def keep(self, folder: Folder, name: str, data: bytes) -> str:
        path = os.path.join(self.folder(folder), name)
        if not os.path.exists(path):
            files.write_atomic(path, data, sync=False)
        return path

    def rewind(self, turn: str, restore: RestoreTrees | None = None, *, restore_files: bool = True) -> Restored:
        """Go back to before `turn`."""
        left = self._place(turn)
        done = self.restore_files(turn, restore) if restore_files else Restored()
        prompt = self.listing.prompt if left else ""
        listing = msgspec.structs.replace(self.listing, turns=left, prompt=prompt)
        self.append(Rewound(turn=turn, listing=listing), sync=True)
        return done

    def _place(self, turn: str) -> int:
        starts = [record.turn for record in self.turns()]
        if turn not in starts:
            raise NotFound(f"no turn {turn!r} to go back to")
        return starts.index(turn)

    def restore_files(self, turn: str, restore: RestoreTrees | None = None) -> Restored:
        """Undo what `turn` and later ones changed: by the trees that were taken of them, and elsewhere file by file."""
        turns = [record.turn for record in self.turns()]
        undone, records = turns[self._place(turn) :], self.records
        taken = {one.turn: one for one in records if isinstance(one, TurnTrees) and one.turn in undone}
        done = restore(list(taken.values())) if restore is not None and taken else Restored()
        first: dict[str, BackedUp] = {}
        for record in records:
            if isinstance(record, BackedUp) and record.turn in undone:
                first.setdefault(record.path, record)
        alone = [one for one in first.values() if restore is None or not self._in_tree(one, taken)]
        for record in alone:
            self._restore(record)
        restored = {os.path.relpath(one.path, self.header.cwd) for one in alone}
        ran = {one.turn for one in records if isinstance(one, MessageRecord) and _ran_command(one.message)}
        return msgspec.structs.replace(
            done,
            changed=(*done.changed, *(one.path for one in alone)),
            lost=tuple(path for path in done.lost if path not in restored),
            unseen=tuple(turns.index(one) + 1 for one in undone if one in ran and one not in taken),
        )

    def _in_tree(self, record: BackedUp, taken: Mapping[str, TurnTrees]) -> bool:
        """Whether the tree of its turn has the file: it lies in the workspace, and is neither ignored nor too large."""
        if (trees := taken.get(record.turn)) is None:
            return False
        path = os.path.relpath(record.path, os.path.realpath(self.header.cwd))
        return not path.startswith("../") and path not in trees.lost

    def _restore(self, record: BackedUp) -> None:
        if record.blob is None:
            try:
                with descriptors.directory(os.path.dirname(record.path)) as parent:
                    os.unlink(os.path.basename(record.path), dir_fd=parent)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise files.storage_error(error, record.path, "remove") from error
            return
        try:
            with opened(os.path.join(self.directory, "backups", record.blob)) as file:
                data = file.read()
            with descriptors.directory(os.path.dirname(record.path), make=True) as parent:
                files.write_atomic(os.path.basename(record.path), data, mode=record.mode, dir_fd=parent)
        except OSError as error:
            raise files.storage_error(error, record.path, "restore") from error


def _ran_command(message: ChatMessage) -> bool:
    return isinstance(message, ToolResult) and message.name == "bash" and message.ok


def prune(message: ChatMessage, calls: Container[str]) -> ChatMessage:
    if isinstance(message, ToolResult) and message.call in calls:
        return msgspec.structs.replace(message, text=PRUNED, images=())
    return message


def well_formed(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Every tool call with exactly one result right after its reply, and no other results: providers require it.

    A call that was never answered is answered as interrupted; a result whose call was lost is removed.
    """
    formed: list[ChatMessage] = []
    unanswered: dict[str, ToolCall] = {}
    for message in (*messages, None):
        if isinstance(message, ToolResult):
            if unanswered.pop(message.call, None) is not None:
                formed.append(message)
            continue
        formed += [ToolResult(call=call.id, name=call.name, text=INTERRUPTED, ok=False) for call in unanswered.values()]
        if message is not None:
            formed.append(message)
        unanswered = {call.id: call for call in message.calls} if isinstance(message, AssistantMessage) else {}
    return formed


def _inherited(record: Record, name: str | None) -> Record:
    """The record as a fork of this name keeps it."""
    if isinstance(record, TurnOver | Rewound) and record.listing is not None:
        return msgspec.structs.replace(record, listing=msgspec.structs.replace(record.listing, name=name))
    return record


def _load(path: str) -> tuple[list[Record], int]:
    """The records, and how many lines were torn or not understood."""
    lines, torn = files.read_lines(path)
    records = decode(lines)
    skipped = len(lines) - len(records) + bool(torn)
    if records and isinstance(records[0], Header) and records[0].format > FORMAT:
        raise Newer(path)
    return records, skipped


def directory_of(session_id: str) -> str:
    if not is_id(session_id):
        raise NotFound(
            f"{session_id!r} cannot be a session id",
            hint=f"use letters, digits, -, _ and . inside, at most {LONGEST_ID}; `treadle sessions` lists the ids",
        )
    return os.path.join(paths.state_dir(), "sessions", session_id)


def history_of(session_id: str) -> str:
    return os.path.join(directory_of(session_id), "history.jsonl")


def remove(session_id: str) -> None:
    """Remove all of a session, for good. Raises Busy when a process has it open, NotFound when there is none."""
    from shutil import rmtree

    directory = directory_of(session_id)
    if not os.path.isdir(directory):
        raise NotFound(f"no session {session_id!r}", hint="`treadle sessions` lists them")
    lock = _hold(directory, session_id)
    try:
        with suppress(FileNotFoundError):
            os.unlink(history_of(session_id))  # first, so that half a session is never listed
        rmtree(directory)
        rmtree(os.path.join(paths.state_dir(), "removed", session_id), ignore_errors=True)  # what the gate took out
    except OSError as error:
        raise files.storage_error(error, directory, "remove") from error
    finally:
        lock.__exit__(None, None, None)


def _hold(directory: str, session_id: str) -> files.locked:
    """A history has one writer: the lock is held while the session is open, and the kernel frees it with the process,
    so that a killed session can be resumed at once. Readers take none: lines are only added."""
    lock = files.locked(os.path.join(directory, "lock"), timeout=0)
    try:
        return lock.__enter__()
    except Busy as error:
        raise Busy(f"session {session_id} is open in another process", hint="wait for it to end, or fork it") from error


def is_id(text: str) -> bool:
    return len(text) <= LONGEST_ID and text[:1] not in ("", ".") and all(c.isalnum() or c in "-_." for c in text)
