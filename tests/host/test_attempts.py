"""One order, tried again and elsewhere."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.host.conftest import QUICK, order, scripted
from tests.host.test_run import more
from tests.workspace.repositories import make
from treadle.errors import Cancelled
from treadle.host.backends import Attempts
from treadle.host.job import Backend, Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.wire.sidecar.receipts import Receipt
from treadle.workspace.workspace import WorkspaceMode


def attempts(
    source: Path,
    store: ReceiptStore,
    act: str,
    runs: list[HostRun],
    *,
    mode: WorkspaceMode = "staged",
    between: Callable[[], None] = lambda: None,
    **options: Any,
) -> Attempts:
    def start(job: Job, earlier: Sequence[dict[str, Any]]) -> HostRun:
        if earlier:
            between()
        runs.append(HostRun(job, store, earlier=earlier))
        return runs[-1]

    job = Job(order=order(source), backend=scripted(act), timing=QUICK, mode=mode, keep_workspace=True)
    return Attempts(job, start, **options)


async def outcome(source: Path, store: ReceiptStore, act: str, **options: Any) -> tuple[Receipt, list[HostRun]]:
    runs: list[HostRun] = []
    return await attempts(source, store, act, runs, **options).carry_out(), runs


async def test_a_crash_is_tried_again_and_each_attempt_has_its_receipt(source: Path, store: ReceiptStore) -> None:
    receipt, runs = await outcome(source, store, "exit_without_final", retries=2)
    assert len(runs) == 3 and [link.run_id for link in store.links()] == [run.run_id for run in runs]
    earlier = more(receipt)["earlier_attempts"]
    assert [tried["run_id"] for tried in earlier] == [run.run_id for run in runs[:2]]
    assert {tried["code"] for tried in earlier} == {"peer_exited"}
    first = store.get(runs[0].run_id)
    place = more(receipt)["workspace"]
    assert earlier[0] == {
        "base": {"commit": place["base_commit"], "tree": place["base_tree"]},
        "run_id": runs[0].run_id,
        "agent": "exit_without_final",
        "outcome": "failed",
        "code": "peer_exited",
        "message": str(runs[0].observed.failure),
        "duration_ms": first.meta.duration_ms,
    }
    assert {run.job.order.id for run in runs} == {receipt.meta.work_order_id}


async def test_what_would_only_fail_again_is_not_tried_again(source: Path, store: ReceiptStore) -> None:
    for act in ("not_json", "says_it_failed", "empty_receipt"):
        assert len((await outcome(source, store, act, retries=3))[1]) == 1


async def test_what_succeeds_is_not_tried_again_nor_elsewhere(source: Path, store: ReceiptStore) -> None:
    _, runs = await outcome(source, store, "good", retries=3, fallbacks=[scripted("good")])
    assert len(runs) == 1


async def test_when_one_fails_the_next_gets_the_order(source: Path, store: ReceiptStore) -> None:
    fallbacks = [scripted("killed"), scripted("good"), scripted("good")]
    receipt, runs = await outcome(source, store, "not_json", fallbacks=fallbacks)
    assert receipt.outcome == "complete" and [run.job.backend.name for run in runs] == ["not_json", "killed", "good"]
    assert [tried["agent"] for tried in more(receipt)["earlier_attempts"]] == ["not_json", "killed"]


CANNOT_START = Backend(name="none", argv=("false",))


@pytest.mark.parametrize("mode", ["staged", "worktree"])
async def test_the_next_goes_on_from_the_files_and_is_told_what_was_done(
    tmp_path: Path, source: Path, store: ReceiptStore, mode: WorkspaceMode
) -> None:
    source = source if mode == "staged" else Path(make(tmp_path / "repo").top)
    fallbacks = [CANNOT_START, scripted("does_what_it_does_not_say")]
    receipt, runs = await outcome(source, store, "killed_at_work", fallbacks=fallbacks, mode=mode)
    left = runs[-1].left
    assert receipt.outcome == "complete" and left is not None and not (source / "made.txt").exists()
    assert [change.path for change in left.difference().changes] == ["made.txt", "secret.txt"]
    assert Path(left.root, "made.txt").read_text() == "do it\n"
    told = Path(left.root, "secret.txt").read_text()
    assert told.startswith("<handover>") and "I chose tabs because of make." in told and told.endswith("\n\ndo it\n")


@pytest.mark.parametrize("how", ["fresh", "conflict"])
async def test_with_fresh_it_begins_again_and_also_where_the_source_is_no_longer_the_same(
    source: Path, store: ReceiptStore, how: str
) -> None:
    def between() -> None:
        if how == "conflict":
            (source / "made.txt").write_text("a person's")

    fallbacks = [scripted("does_what_it_does_not_say")]
    _, runs = await outcome(source, store, "killed_at_work", fallbacks=fallbacks, fresh=how == "fresh", between=between)
    left = runs[-1].left
    assert left is not None and [change.path for change in left.difference().changes] == ["secret.txt"]
    assert Path(left.root, "secret.txt").read_text() == "do it\n"
    assert ("begun again" in str(runs[-1].observed.notes)) is (how == "conflict")


async def test_whoever_stops_it_stops_all_attempts(source: Path, store: ReceiptStore) -> None:
    runs: list[HostRun] = []
    tried = attempts(source, store, "hang", runs, retries=5, fallbacks=[scripted("good")])
    work = asyncio.create_task(tried.carry_out())
    while not runs:
        await asyncio.sleep(0)
    await tried.stop(Cancelled("enough"))
    tried.kill()
    receipt = await work
    assert len(runs) == 1 and receipt.outcome == "failed" and more(receipt)["end"]["code"] == "cancelled"


async def test_what_was_stopped_between_two_tries_is_not_tried_again(source: Path, store: ReceiptStore) -> None:
    runs: list[HostRun] = []
    tried = attempts(source, store, "exit_without_final", runs, retries=5, fallbacks=[scripted("good")])
    work = asyncio.create_task(tried.carry_out())
    async with asyncio.timeout(60):
        while tried._pausing is None:
            await asyncio.sleep(0)
    await tried.stop(Cancelled("enough"))
    assert (await work).outcome == "failed" and len(runs) == 1
