"""Two hundred workers at once, on however few cores there are."""

import asyncio
import resource
from pathlib import Path

import psutil

from tests.e2e.worker_process import COMMAND
from treadle.drivers.worker.driver import WorkerAgent
from treadle.events import TextDelta, TurnEnded
from treadle.io.peer import Patience
from treadle.session import SessionSpec
from treadle.sessions.totals import run_turn

WORKERS = 200
DELTAS = 1000
PATIENT = Patience(handshake=600, silence=600, shutdown=120)


async def one(number: int, cwd: Path, barrier: asyncio.Barrier, peaks: list[int]) -> None:
    agent = WorkerAgent(COMMAND, patience=PATIENT)
    session = await agent.open(SessionSpec.of(cwd=str(cwd), model="scripted:model.toml", tools=()))
    try:
        await barrier.wait()
        words: list[str] = []
        async for event in run_turn(session, f"count, {number}"):
            if isinstance(event, TextDelta):
                words.append(event.text.strip())
        assert isinstance(event, TurnEnded) and event.outcome == "completed", event
        assert words == [str(n) for n in range(DELTAS)], f"worker {number} lost or swapped events"
        peaks.append(psutil.Process(session._worker.child.pid).memory_info().rss)
        await barrier.wait()
    finally:
        await session.close()


async def test_two_hundred_workers_stream_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(
        "[[reply]]\ntext = '''" + " ".join(map(str, range(DELTAS))) + "'''\npace = 0.0001\n"
    )
    barrier, peaks = asyncio.Barrier(WORKERS), []
    async with asyncio.TaskGroup() as workers:
        for number in range(WORKERS):
            workers.create_task(one(number, tmp_path, barrier, peaks))
    assert len(peaks) == WORKERS
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest worker {max(peaks) / 2**20:.0f} MB, client {ours:.0f} MB for {WORKERS} workers")
    assert max(peaks) < 80 * 2**20
    assert ours < 500
    left = [
        process.pid for process in psutil.process_iter(["cmdline"]) if COMMAND[0] in (process.info["cmdline"] or [])
    ]
    assert not left, f"still running: {left}"
