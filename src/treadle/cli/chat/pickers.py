"""`/model` and `/resume` without an argument: choose from a list."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from treadle.agent.records import BackedUp
from treadle.agent.session_list import ListedSession, list_sessions
from treadle.cli.chat.talk import Picker
from treadle.session import Choosing, Session

Choose = Callable[[str, Sequence[tuple[str, str]]], Awaitable[str | None]]
"""Show (value, label) pairs under a title. Returns the chosen value, or None when the person chose nothing."""
MOST = 50
SHOWN = 3
"""How many files of a turn are named."""


def pickers(session: Session, choose: Choose, cwd: str) -> dict[str, Picker]:
    async def model(_: str) -> str | None:
        if isinstance(session, Choosing):
            return await choose("Which model?", [(one.id, one.name) for one in (await session.menu()).offered])
        known = dict.fromkeys([*session.info.models, *(entry.model for entry in await _entries(cwd))])
        return await choose("Which model?", [(name, name) for name in known if name])

    async def resume(_: str) -> str | None:
        entries = [entry for entry in await _entries(cwd) if entry.id != session.id and entry.turns]
        rows = []
        for entry in entries[:MOST]:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
            title = entry.name or " ".join(entry.prompt.split())[:60]
            rows.append((entry.id, f"{when}  {entry.turns:3} turns  {title}"))
        return await choose("Which session?", rows)

    async def rewind(_: str) -> str | None:
        turns = rewindable(session, cwd)
        rows = [(str(number), f"{number:3}  {prompt}{_files(files)}") for number, prompt, files in turns]
        chosen = await choose("Go back to before which turn?", rows)
        if chosen is None or not chosen.isdigit():
            return None
        later = dict.fromkeys(file for number, _, files in turns if number >= int(chosen) for file in files)
        if not later:
            return chosen
        options = [("", f"with the files as they were then:{_files(list(later))}"), ("--keep-files", "keep the files")]
        keep = await choose("And the files?", options)
        return None if keep is None else f"{chosen} {keep}".strip()

    return {"model": model, "resume": resume, "rewind": rewind}


def rewindable(session: Session, cwd: str) -> list[tuple[int, str, list[str]]]:
    """The turns that one can go back to: number, prompt, and the files that each changed first."""
    from treadle.agent.session import NativeSession

    if not isinstance(session, NativeSession):
        return []
    changed: dict[str, list[str]] = {}
    for record in session.transcript.records:
        if isinstance(record, BackedUp):
            changed.setdefault(record.turn, []).append(os.path.relpath(record.path, cwd))
    turns = enumerate(session.transcript.turns(), 1)
    return [(number, " ".join(turn.prompt.split())[:60], changed.get(turn.turn, [])) for number, turn in turns]


def _files(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"  ({', '.join(names[:SHOWN])}{more})" if names else ""


async def _entries(cwd: str) -> Sequence[ListedSession]:
    return await asyncio.to_thread(list_sessions, cwd)
