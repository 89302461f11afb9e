"""Tries one order again, or lets another backend go on. Each attempt has its own receipt; the last one lists them."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from treadle.errors import Cancelled, TreadleError
from treadle.host.conclusion import redactor_of
from treadle.host.job import Backend, Begun, Job
from treadle.host.run import HostRun
from treadle.policy.guess import access_of
from treadle.session import Agent
from treadle.sessions.handover import Gathering
from treadle.wire.sidecar.events import SidecarIncoming, contract_code
from treadle.wire.sidecar.receipts import Receipt, timestamp

PASSING = {
    "backend_unavailable",
    "backend_timeout",
    "backend_rate_limited",
    "backend_crashed",
    "rate_limit_exceeded",
    "circuit_breaker_open",
    "stream_closed",
}
"""Error codes of the contract that another attempt may not meet again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Attempts:
    """`start` makes the run of one attempt from its job and the outcomes of the earlier ones.

    With `fresh`, a fallback begins again, without what was done.
    """

    def __init__(
        self,
        job: Job,
        start: Callable[[Job, Sequence[dict[str, Any]]], HostRun],
        *,
        retries: int = 0,
        fallbacks: Sequence[Backend | Agent] = (),
        fresh: bool = False,
    ) -> None:
        self._jobs = [job, *(replace(job, backend=backend) for backend in fallbacks)]
        self._start = start
        self._retries = retries
        self._fresh = fresh
        self._gathering = Gathering(redactor_of(job.order))
        self._begun: Begun | None = None
        self._earlier: list[dict[str, Any]] = []
        self._stopped: TreadleError | None = None
        self._pausing: asyncio.Task[None] | None = None
        self.run: HostRun | None = None
        """The current attempt, or the last one."""

    async def carry_out(self) -> Receipt:
        for at, job in enumerate(self._jobs):
            receipt = await self._try(replace(job, begun=self._begun))
            more = at < len(self._jobs) - 1
            if not more or receipt.outcome != "failed" or self._stopped is not None:
                break
            if self.run is not None and not self._fresh:
                self._begun = self._left_by(self.run) or self._begun
        return receipt

    def _left_by(self, run: HostRun) -> Begun | None:
        """What there is to go on from: the files, and what was said and done."""
        incoming, seen = SidecarIncoming(access_of), run.observed.trace.events(timestamp(time.time()))
        for event in [made for one in seen for made in incoming.translate(one)]:
            self._gathering.look(event)
        if run.left is None:
            return None
        why = str(run.observed.failure or "it did not finish the task")
        return Begun(run.left, self._gathering.handover(run.job.backend.name).prompt(why=why))

    async def _try(self, job: Job) -> Receipt:
        for attempt in range(self._retries + 1):
            self.run = self._start(job, tuple(self._earlier))
            receipt = await self.run.run()
            self._earlier.append(_summary(self.run, receipt))
            failure = self.run.observed.failure
            if attempt == self._retries or receipt.outcome != "failed" or not _may_pass(failure):
                break
            await self._pause(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE), failure)
            if self._stopped is not None:
                break
        return receipt

    async def _pause(self, seconds: float, failure: TreadleError | None) -> None:
        if failure is not None and failure.retry_after_ms is not None:
            seconds = max(seconds, failure.retry_after_ms / 1000)
        self._pausing = asyncio.create_task(asyncio.sleep(seconds))
        await asyncio.wait([self._pausing])

    async def stop(self, why: TreadleError) -> None:
        """End the current attempt and begin no other."""
        self._stopped = why
        if self._pausing is not None:
            self._pausing.cancel()
        if self.run is not None:
            await self.run.stop(why)

    def kill(self) -> None:
        if self.run is not None:
            self.run.kill()


def _may_pass(failure: TreadleError | None) -> bool:
    if failure is None or isinstance(failure, Cancelled):
        return False
    return failure.retryable or contract_code(failure.code, failure.details) in PASSING


def _summary(run: HostRun, receipt: Receipt) -> dict[str, Any]:
    failure, place = run.observed.failure, run.observed.workspace
    return {
        "run_id": run.run_id,
        "base": {"commit": place["base_commit"], "tree": place["base_tree"]} if place else None,
        "agent": run.job.backend.name,
        "outcome": receipt.outcome,
        "code": failure.code if failure else None,
        "message": str(failure) if failure else None,
        "duration_ms": receipt.meta.duration_ms,
    }
