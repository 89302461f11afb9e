"""An order without an agent (`null`): `setup` does the work, if any is to be done, and `verify` judges it.

So a check can be an order like any other: on any node that has the commit, with a receipt, done or failed.
"""

from typing import Any, Protocol

from treadle.events import AnyEvent
from treadle.fleet.run import null, reasons
from treadle.fleet.run.attempt import OUTPUT_MAX, Ended, RunningAttempt
from treadle.fleet.run.reasons import VERIFY
from treadle.fleet.run.resume.continuing import Before
from treadle.io.within import unless
from treadle.receipts.trace import Check
from treadle.wire.fleet.orders import Spec


class CommandsRun(Protocol):
    """What is needed of an attempt that is carried out."""

    attempt: RunningAttempt
    spec: Spec
    before: Before
    result: dict[str, Any]

    async def prepare(self) -> None: ...
    async def set_up(self) -> None: ...
    async def run_command(self, command: str, doing: str) -> Check: ...
    async def keep_finished(self, result: dict[str, Any]) -> str: ...
    async def take(self, event: AnyEvent) -> None: ...


async def run(execution: CommandsRun) -> Ended:
    attempt, spec = execution.attempt, execution.spec
    if not spec.setup and not spec.verify:
        return await null.run(attempt, execution.take)
    await execution.prepare()
    if spec.setup and not execution.before.restored:
        await unless(attempt.stopping.wait(), execution.set_up())
    ended = await null.run(attempt, execution.take)
    if ended.outcome != "done":
        return ended
    result: dict[str, Any] = {"verified": None}
    if spec.verify:
        done = await unless(attempt.stopping.wait(), execution.run_command(spec.verify, "verify"))
        if done is None:
            return null.stopped(attempt)
        result = {"verified": done.ok, "says": done.output_tail.strip()[-OUTPUT_MAX:]}
    if problem := await execution.keep_finished(result):
        return Ended(outcome="failed", why=problem, reason="storage_error", fault="ours")
    if result["verified"] is False:
        why = reasons.not_verified(spec.verify)
        return Ended(
            outcome="failed", why=why, reason=VERIFY, fault="verify", output=result["says"], result=execution.result
        )
    return Ended(outcome="done", result=execution.result)
