"""Runs under way, seen and ended from another process."""

import asyncio
import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.host.conftest import QUICK, order, scripted
from tests.host.test_run import more
from tests.waiting import until
from treadle.errors import NotFound
from treadle.host.job import (
    Job,
    RunUnderWay,
    ask_to_stop,
    find_running,
    follow,
    is_under_way,
    running,
    runs_directory,
    wait_for_end,
)
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.io.files import locked
from treadle.wire.sidecar.receipts import AssistantSaid


async def test_a_run_is_listed_followed_and_cancelled(source: Path, store: ReceiptStore) -> None:
    run = HostRun(Job(order=order(source, task="6000"), backend=scripted("works_for_a_while"), timing=QUICK), store)
    work = asyncio.create_task(run.run())
    await until(lambda: run.observed.trace.seen > 0)
    (found,) = running()
    assert found == RunUnderWay(
        run_id=run.run_id,
        agent="works_for_a_while",
        task="6000",
        source=str(source),
        mode="staged",
        started=found.started,
        pid=os.getpid(),
        alive=True,
        receipts=store.directory,
    )
    assert is_under_way(run.run_id) and not is_under_way("other")
    assert find_running(run.run_id[:6]) == find_running("latest") == found
    following = asyncio.create_task(asyncio.to_thread(lambda: list(follow(run.run_id))))
    assert not wait_for_end(run.run_id, 0.0)
    ask_to_stop(run.run_id, "seen enough")
    receipt = await work
    assert more(receipt)["end"]["cancelled_because"] == "seen enough"
    heard = await following
    assert isinstance(heard[0], AssistantSaid) and len(heard) == run.observed.trace.seen
    assert running() == [] and wait_for_end(run.run_id)
    with pytest.raises(NotFound, match="no running run"):
        find_running(run.run_id)


def test_runs_are_listed_by_their_age_and_a_short_id_must_be_that_of_one(source: Path, store: ReceiptStore) -> None:
    with ExitStack() as locks:
        ids = []
        for age in (3, 1, 2):
            run = HostRun(Job(order=order(source), backend=scripted("good")), store)
            os.makedirs(run.directory)
            run._record()
            record = Path(run.directory, "run.json")
            record.write_text(json.dumps({**json.loads(record.read_text()), "started": 100.0 - age}))
            locks.enter_context(locked(os.path.join(run.directory, "lock")))
            ids.append(run.run_id)
        (Path(runs_directory()) / "damaged").mkdir()
        (Path(runs_directory()) / "damaged" / "run.json").write_text("{")
        assert [run.run_id for run in running()] == [ids[0], ids[2], ids[1]]
        assert find_running("latest").run_id == ids[1] and find_running(ids[0].upper()).run_id == ids[0]
        with pytest.raises(NotFound, match="3 running runs begin with '' .treadle host ps lists them"):
            find_running("")


def test_a_run_whose_host_has_died_is_listed_as_left(source: Path, store: ReceiptStore) -> None:
    run = HostRun(Job(order=order(source), backend=scripted("good")), store)
    os.makedirs(run.directory)
    run._record()
    (Path(runs_directory()) / "strange").mkdir()
    (found,) = running()
    assert not found.alive and list(follow(run.run_id)) == []
    with pytest.raises(NotFound):
        find_running("latest")
