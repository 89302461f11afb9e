"""Choosing what a command is about."""

import re
from collections.abc import Sequence
from pathlib import Path

from treadle.agent.transcript import Transcript, TurnBegan
from treadle.cli.chat.screen import SHOWN, _files, pickers
from treadle.session import AgentInfo, SessionSpec
from treadle.testing.sessions import ScriptedSession


async def test_sessions_of_this_directory_and_models_seen_here_are_offered(tmp_path: Path) -> None:
    offered: dict[str, list[str]] = {}
    labels: dict[str, list[str]] = {}

    async def choose(title: str, rows: Sequence[tuple[str, str]]) -> str | None:
        offered[title] = [value for value, _ in rows]
        labels[title] = [label for _, label in rows]
        return rows[0][0] if rows else None

    kept = Transcript.create(cwd=str(tmp_path), model="vendor:old")
    kept.append(TurnBegan(turn="t", prompt="hello"), sync=True)
    kept.close()
    session = ScriptedSession(SessionSpec(cwd=str(tmp_path)), [])
    session._info = AgentInfo(name="x", models=("now",))
    chosen = pickers(session, choose, str(tmp_path))
    assert await chosen["model"]("") == "now"
    assert await chosen["resume"]("") == kept.header.id and await chosen["rewind"]("") is None
    assert offered["Which model?"] == ["now", "vendor:old"]
    assert offered["Which session?"] == [kept.header.id] and offered["Go back to before which turn?"] == []
    (label,) = labels["Which session?"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d    1 turns  hello", label)
    await session.close()


def test_of_many_files_a_few_are_named() -> None:
    shown = [_files([f"f{number}" for number in range(count)]) for count in (0, 1, SHOWN, SHOWN + 1)]
    assert shown == ["", "  (f0)", "  (f0, f1, f2)", "  (f0, f1, f2 and 1 more)"]
