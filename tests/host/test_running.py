"""Runs under way, seen and ended from another process."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.host.conftest import QUICK, order, scripted
from tests.host.test_run import more
from tests.waiting import until
from treadle.errors import NotFound
from treadle.host.job import Job, runs_directory
from treadle.host.run import HostRun
from treadle.host.running import ask_to_stop, find_running, follow, running, wait_for_end
from treadle.host.store import ReceiptStore
from treadle.wire.sidecar.receipts import AssistantSaid


async def test_a_run_is_listed_followed_and_cancelled(source: Path, store: ReceiptStore) -> None:
    run = HostRun(Job(order=order(source, task="6000"), backend=scripted("works_for_a_while"), timing=QUICK), store)
    work = asyncio.create_task(run.run())
    await until(lambda: run.observed.trace.seen > 0)
    (found,) = running()
    assert found.run_id == run.run_id and found.alive and found.task == "6000" and found.pid == os.getpid()
    assert find_running(run.run_id[:6]) == find_running("latest") == found
    following = asyncio.create_task(asyncio.to_thread(lambda: list(follow(run.run_id))))
    assert not wait_for_end(run.run_id, 0.0)
    ask_to_stop(run.run_id, "seen enough")
    receipt = await work
    assert more(receipt)["end"]["cancelled_because"] == "seen enough"
    heard = await following
    assert isinstance(heard[0], AssistantSaid) and len(heard) == run.observed.trace.seen
    assert running() == [] and wait_for_end(run.run_id)
    with pytest.raises(NotFound, match="no run under way"):
        find_running(run.run_id)


def test_a_run_whose_host_has_died_is_listed_as_left(source: Path, store: ReceiptStore) -> None:
    run = HostRun(Job(order=order(source), backend=scripted("good")), store)
    os.makedirs(run.directory)
    run._record()
    (Path(runs_directory()) / "strange").mkdir()
    (found,) = running()
    assert not found.alive and list(follow(run.run_id)) == []
    with pytest.raises(NotFound):
        find_running("latest")
