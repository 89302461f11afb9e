"""Orders for the scripted sidecar, and a way to see whether any process of a run is left."""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.stand_ins import bad_sidecar
from tests.wire.conversations.sidecar import SAMPLE_ORDER
from treadle.drivers.sidecar.peer import Timing
from treadle.errors import TreadleError
from treadle.host.job import Backend, Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.wire.sidecar.connection import NO_POLICY, Requirements, WorkOrder, WorkspaceSpec
from treadle.wire.sidecar.receipts import AnyAgentEvent, Receipt

MARK = "TREADLE_TEST_MARK"


def scripted(act: str) -> Backend:
    return Backend(name=act, argv=(sys.executable, "-I", "-S", str(bad_sidecar.__file__), act))


def order(root: Path, task: str = "do it", **changes: object) -> WorkOrder:
    made = replace(
        SAMPLE_ORDER,
        id=str(uuid.uuid4()),
        task=task,
        workspace=WorkspaceSpec(root=str(root), mode="staged", include=[], exclude=[]),
        policy=NO_POLICY,
        requirements=Requirements(required=[]),
        config=replace(SAMPLE_ORDER.config, env={MARK: uuid.uuid4().hex}, max_turns=None, max_budget_usd=None),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def left_running(job: Job) -> list[str]:
    return marked(job.order.config.env[MARK])


def marked(value: str) -> list[str]:
    """Processes that carry this mark in their environment, as all that descend from a sidecar do."""
    mark = f"{MARK}={value}".encode()
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if name.isdigit() and mark in file.read():
                    found.append(name)
        except OSError:
            pass
    return found


QUICK = Timing(handshake=60.0, quiet=60.0, cancel_grace=0.5)
PINGING = replace(QUICK, ping_every=0.2, pong_within=0.2, missed_pongs=2)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return root


@pytest.fixture
def store(state_home: Path) -> ReceiptStore:
    return ReceiptStore()


@pytest.fixture
def run(source: Path, store: ReceiptStore) -> Callable[..., object]:
    """Run one act of the scripted sidecar; whatever it does, a receipt is there and no process is left."""

    async def go(
        act: str, job: Job | None = None, *, stop: TreadleError | None = None, **changes: object
    ) -> tuple[Receipt, HostRun]:
        """With `stop`, the run is stopped for this reason as soon as the sidecar has said something."""
        job = job or Job(order=order(source), backend=scripted(act), timing=PINGING if "pings" in act else QUICK)
        job = replace(job, **changes)  # type: ignore[arg-type]
        stopping: list[asyncio.Task[None]] = []

        def heard(events: Sequence[AnyAgentEvent]) -> None:
            if stop is not None and not stopping:
                stopping.append(asyncio.create_task(host.stop(stop)))

        host = HostRun(job, store, listener=heard)
        receipt = await host.run()
        assert left_running(job) == []
        assert store.get(host.run_id) == receipt
        assert store.check() == []
        assert receipt.meta.run_id == host.run_id and receipt.meta.work_order_id == job.order.id
        return receipt, host

    return go
