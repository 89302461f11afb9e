"""Commands about sessions on disk: list, resume, fork, rename, and go back in time."""

import asyncio
import os
import time
from typing import Protocol

from treadle.agent.commands.base import SlashCommand, WrongUse, columns, reply
from treadle.agent.records import Named
from treadle.agent.session_list import find_session, list_sessions
from treadle.agent.transcript import Transcript
from treadle.errors import NotFound
from treadle.session import CommandResult, SessionSpec

SHOWN = 20


class RecordedSession(Protocol):
    """What these commands need of a session."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> SessionSpec: ...
    @property
    def transcript(self) -> Transcript: ...
    async def move_to(self, transcript: Transcript) -> None: ...
    def rewind(self, turn: str, *, restore_files: bool = True) -> list[str]: ...


async def _sessions(session: RecordedSession, args: str) -> CommandResult:
    entries = await asyncio.to_thread(list_sessions, session.spec.cwd)
    rows = []
    for entry in entries[:SHOWN]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
        title = entry.name or _one_line(entry.prompt) or "(nothing said)"
        mark = "*" if entry.id == session.id else " "
        rows.append((f"{mark} {entry.id}", f"{when}  {entry.turns:3} turns  {title}"))
    more = f"\n{len(entries) - SHOWN} older ones: treadle sessions --here" if len(entries) > SHOWN else ""
    return reply((columns(rows) or "No session of this directory is saved.") + more)


async def _resume(session: RecordedSession, args: str) -> CommandResult:
    if not args.strip():
        shown = await _sessions(session, "")
        return reply(f"{shown.message}\n\n/resume ID goes on with one.")
    found = await asyncio.to_thread(find_session, args.strip())
    if found == session.id:
        return reply("That is this session.")
    await session.move_to(Transcript.open(found))
    return reply(f"Now in session {session.id}{_title(session)}: {len(session.transcript.turns())} turns so far.")


async def _fork(session: RecordedSession, args: str) -> CommandResult:
    old = session.transcript
    copy = Transcript.create(
        cwd=session.spec.cwd,
        model=old.model,
        name=args.strip() or None,
        persist=session.spec.start.persist,
        forked=old,
    )
    original = old.header.id
    await session.move_to(copy)
    return reply(f"Now in session {session.id}, a copy of {original}, which stays as it was.")


async def _rename(session: RecordedSession, args: str) -> CommandResult:
    name = " ".join(args.split())
    if not name:
        raise WrongUse("a session needs a name")
    session.transcript.append(Named(name=name), sync=True)
    return reply(f"This session is now called {name!r}: treadle --resume {_quoted(name)}")


async def _rewind(session: RecordedSession, args: str) -> CommandResult:
    words = args.split()
    keep = "--keep-files" in words
    words = [word for word in words if word != "--keep-files"]
    turns = session.transcript.turns()
    if len(words) > 1 or any(not word.isdigit() for word in words):
        raise WrongUse(f"{' '.join(words)!r} is not the number of a turn")
    if not words:
        rows = [(f"{at:3}", _one_line(turn.prompt)) for at, turn in enumerate(turns, 1)]
        return reply(columns(rows) + "\n\n/rewind N goes back to before turn N." if rows else "There are no turns yet.")
    if not 0 < int(words[0]) <= len(turns):
        raise NotFound(f"there is no turn {words[0]}", hint="/rewind lists them")
    changed = session.rewind(turns[int(words[0]) - 1].turn, restore_files=not keep)
    names = {path: os.path.relpath(path, session.spec.cwd) for path in changed}
    back = [name for path, name in names.items() if os.path.lexists(path)]
    gone = [name for path, name in names.items() if not os.path.lexists(path)]
    changes = [
        f" {what}: {', '.join(files)}." for what, files in (("Files put back", back), ("Removed", gone)) if files
    ]
    return reply(f"Back to before turn {words[0]}.{''.join(changes)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:60]


def _title(session: RecordedSession) -> str:
    return f" ({session.transcript.name})" if session.transcript.name else ""


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(name)


COMMANDS = (
    SlashCommand(name="sessions", help="List the sessions of this directory, the latest first.", run=_sessions),
    SlashCommand(
        name="resume", usage=("[ID|NAME]",), help="Go on with another session.", run=_resume, alone="with arguments"
    ),
    SlashCommand(name="fork", usage=("[NAME]",), help="Go on in a copy of this session.", run=_fork, alone="always"),
    SlashCommand(name="rename", usage=("NAME",), help="Give this session a name to resume it by.", run=_rename),
    SlashCommand(
        name="rewind",
        usage=("", "N [--keep-files]"),
        help="List the turns, or go back to before one, with the files that were changed since.",
        run=_rewind,
        alone="with arguments",
    ),
)
