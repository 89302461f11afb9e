"""A runner: the process of one attempt at an order. It outlives the node that started it, and ends with its attempt.

It tells the scheduler that it lives, learns whether it still holds its order, and reports how it ended. While the
engine is away it goes on and keeps its events on disk. When it could not report for one lease, another runner may
have taken over, so it stops before the agent's next step until it knows.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from typing import assert_never

from treadle.errors import Cancelled, RemoteProtocolError, TreadleError
from treadle.fleet.engine import places, tasks
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.orders import read_order
from treadle.fleet.run import runs
from treadle.fleet.run.attempt import OUTAGE_SECONDS, Ended, RunningAttempt
from treadle.fleet.run.execute import Execution
from treadle.io.files import locked
from treadle.io.process import warm_parent
from treadle.io.process.loop import hold_secrets, on_signals, run_async
from treadle.redact import Redactor
from treadle.wire.fleet import keys, messages
from treadle.wire.fleet.connection import read as read_message

SEND_SECONDS = 60.0
LEAVE_SECONDS = 5.0
"""How long one that was asked to end waits for an engine that does not answer. Its events are on disk."""


class RedactedLines(logging.Formatter):
    """The runner's log quotes what agents and programs said, and they say anything."""

    def format(self, record: logging.LogRecord) -> str:
        return Redactor.of_environment(os.environ).text(super().format(record))


class Runner:
    def __init__(self, attempt: RunningAttempt) -> None:
        self.attempt = attempt
        self.spec, self.order, self.lease = attempt.spec, attempt.order, attempt.lease
        self.bus = attempt.bus
        self.execution = Execution(attempt)
        self.leaving = ""
        """Why the order is to be given back."""
        self._heard = time.monotonic()
        self._paused = False

    # Talking to the scheduler...

    async def _beat(self) -> None:
        subject = f"fleet.beat.{self.order.node}.{self.spec.id}.{self.order.attempt}"
        while not self.attempt.superseded.is_set():
            try:
                activity, patience = self.execution.activity(), self.lease / 3
                answer = await self.bus.ask(subject, messages.RunBeatAnswer, activity, timeout=patience)
                self._heard = time.monotonic()
                await self._obey(answer)
            except (Unreachable, RemoteProtocolError):
                if self.attempt.log.closed_by_another:
                    self._supersede()
            silent = time.monotonic() - self._heard
            if silent > OUTAGE_SECONDS:
                self.leaving = "the engine was away for too long"
                await self.execution.stop(Cancelled(self.leaving))
            self._gate(silent > self.lease)
            await asyncio.sleep(self.lease / 5)

    def _gate(self, alone: bool) -> None:
        if (alone or self._paused) and not self.attempt.stopping.is_set():
            self.attempt.may_go_on.clear()
        else:
            self.attempt.may_go_on.set()

    async def _obey(self, answer: messages.RunBeatAnswer) -> None:
        if not answer.holds:
            return self._supersede()
        parked = answer.hold_until > time.time()
        self._paused = answer.paused or parked
        until = time.strftime("%H:%M", time.localtime(answer.hold_until))
        waits = f"waiting for the model until {until}" if parked else "it is paused"
        self.attempt.held = waits if self._paused else ""
        await self.execution.learn(answer)
        if answer.hand_back and not self.leaving:
            await self._hand_back(answer.hand_back)
        if answer.cancel:
            await self.execution.stop(Cancelled(answer.cancel))

    async def _hand_back(self, why: str) -> None:
        self.leaving = why
        await self.execution.stop(Cancelled(why))

    def _supersede(self) -> None:
        self.attempt.superseded.set()
        self.attempt.may_go_on.set()
        self.execution.kill()

    async def _on_message(self, subject: str, data: bytes) -> bytes | None:
        """`fleet.tell.NODE.ORDER`: what cannot wait for the next beat."""
        instruction: messages.AnyInstruction = read_message(subject, data)
        match instruction:
            case messages.StopRun():
                await self.execution.stop(Cancelled(instruction.why))
            case messages.Leave():
                if instruction.attempt == self.order.attempt:
                    self._supersede()
            case messages.HandBack():
                await self._hand_back(instruction.why)
            case messages.Hold() | messages.GoOn():
                self._paused = isinstance(instruction, messages.Hold)
                self._gate(False)
            case messages.Nudge():
                await self.execution.nudge(instruction.why)
            case messages.AskNumbered():
                self.execution.questions.numbered(str(instruction.request), instruction.ask)
            case _:
                assert_never(instruction)
        return b"{}"

    # The run...

    async def run(self) -> None:
        subscription = await self.bus.serve(f"fleet.tell.{self.order.node}.{self.spec.id}", self._on_message)
        await self.attempt.report(messages.AttemptStarted)
        beating = asyncio.create_task(self._beat())
        try:
            ended = await self.execution.run()
            if not self.attempt.superseded.is_set():
                await self._conclude(ended)
        finally:
            await tasks.end([beating])
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    def leave(self) -> None:
        """Give the order back, so that another runner continues it."""
        self.leaving = self.leaving or "its runner was asked to end"
        self.attempt.leave_by = time.monotonic() + LEAVE_SECONDS
        self._leaving_task = asyncio.ensure_future(self.execution.stop(Cancelled(self.leaving)))

    async def _conclude(self, ended: Ended) -> None:
        await self.attempt.end_events(SEND_SECONDS if self.bus.connected else OUTAGE_SECONDS)
        if self.attempt.log.closed_by_another:
            return
        if self.attempt.parked and (ask := self.execution.meter.asks_for_more):
            await self.attempt.report(messages.RunAsked, ask=ask, number="budget")
        outcome = ended.outcome
        if outcome != "done" and (self.leaving or self.attempt.parked):
            outcome = "handed_back" if self.leaving else "parked"
        await self.attempt.report(
            messages.RunEnded,
            outcome=outcome,
            why=self.leaving if outcome == "handed_back" else ended.why,
            reason=ended.reason,
            fault=ended.fault,
            output=ended.output,
            used=ended.used,
            result=ended.result,
            receipt=ended.receipt,
            run=ended.run,
            approvals=ended.approvals,
            resumed=self.execution.before.how,
        )
        await self.execution.settle(await self._counted())

    async def _counted(self) -> bool:
        """Whether our end became the order's end: only then is there a branch."""
        deadline = time.monotonic() + 3 * self.lease
        while time.monotonic() < deadline:
            try:
                entry = await self.bus.get(keys.ORDER(self.spec.id))
            except Unreachable:
                entry = None
            if entry is not None:
                order = read_order(entry)
                if order.attempt != self.order.attempt or order.state == "queued":
                    return False
                if order.ended:
                    return True
            await asyncio.sleep(0.02)
        return False


async def main(directory: str) -> int:
    job = runs.read_job(directory)
    # Held until we end, however we end: by it a restarted node sees whether this attempt still runs, and the next
    # attempt on this machine whether it may use the directory.
    with locked(runs.lock_of(directory), 0):
        runs.note_runner(directory)
        bus = await _connect(job)
        try:
            runner = Runner(RunningAttempt(directory, job.spec, job.order, job.lease, bus))
            on_signals(lambda _: runner.leave(), (signal.SIGTERM,))
            await runner.run()
            return 0
        finally:
            await bus.close()


async def _connect(job: runs.RunJob) -> Bus:
    address = places.load().address(job.role)
    deadline = time.monotonic() + OUTAGE_SECONDS
    while True:
        try:
            return await Bus.connect(address, name=f"runner {job.spec.id}.{job.order.attempt}")
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def forked(directory: str, log_fd: int) -> None:
    """Run in a copy of a warm parent, which shares most of its memory with the other copies."""
    import gc

    os.setsid()
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    sys.stdout = sys.stderr = warm_parent.stream(2, "w")
    gc.enable()
    sys.argv = ["treadle.fleet.run.runner", directory]
    start()


def start() -> None:
    """`python -m treadle.fleet.run.runner DIRECTORY`."""
    hold_secrets()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger().handlers[0].setFormatter(RedactedLines("%(asctime)s %(name)s %(message)s"))
    try:
        sys.exit(run_async(main(sys.argv[1])))
    except TreadleError as error:
        print(f"treadle: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    start()
