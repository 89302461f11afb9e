"""A native session over a scripted model."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.native import NativeAgent
from treadle.agent.session import NativeSession
from treadle.session import SessionSpec

SAY = '[[reply]]\ntext = "done"\nusage = { input = 7, output = 3 }\ncost = 0.25\n'

Opened = Callable[..., Awaitable[NativeSession]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


@pytest.fixture
async def opened(tmp_path: Path, work: Path) -> AsyncIterator[Opened]:
    sessions: list[NativeSession] = []

    async def open_one(script: str = SAY, **more: Any) -> NativeSession:
        path = tmp_path / f"script{len(sessions)}.toml"
        path.write_text(script)
        spec = SessionSpec.of(**{"cwd": str(work), "model": f"scripted:{path}", "mode": "suggest", **more})
        session = await NativeAgent({}).open(spec)
        sessions.append(session)
        return session

    yield open_one
    for session in sessions:
        await session.close()
