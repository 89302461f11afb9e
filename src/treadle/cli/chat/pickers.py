"""`/model` and `/resume` without an argument: choose from a list."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from treadle.agent.session_list import ListedSession, list_sessions
from treadle.cli.chat.talk import Picker
from treadle.session import Session

Choose = Callable[[str, Sequence[tuple[str, str]]], Awaitable[str | None]]
"""Show (value, label) pairs under a title. Returns the chosen value, or None when the person chose nothing."""
MOST = 50


def pickers(session: Session, choose: Choose, cwd: str) -> dict[str, Picker]:
    async def model(_: str) -> str | None:
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

    return {"model": model, "resume": resume}


async def _entries(cwd: str) -> Sequence[ListedSession]:
    return await asyncio.to_thread(list_sessions, cwd)
