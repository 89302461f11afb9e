"""Carries out one attempt: the host's run of one order, while the fleet decides where, when and who answers."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from treadle.coordination.surfaces import Surface
from treadle.errors import Cancelled, NotFound, TimedOut, TreadleError, Unsupported, WorkspaceError
from treadle.events import Answered, AnyEvent, Asked, Failed, Retrying, ToolEnded, ToolStarted, TurnEnded, Usage, Warned
from treadle.fleet import frugal
from treadle.fleet.engine import objects
from treadle.fleet.run import agentless, evidence, null, reasons, sources, trees
from treadle.fleet.run.attempt import OUTPUT_MAX, Ended, RunningAttempt
from treadle.fleet.run.claimed import Claimed
from treadle.fleet.run.messages import Messages
from treadle.fleet.run.metering import Meter
from treadle.fleet.run.questions import Questions
from treadle.fleet.run.resume import continuing
from treadle.fleet.run.resume.checkpoints import Checkpoints
from treadle.fleet.run.typed_answers import TypedAnswer
from treadle.session import Agent, Answer, SessionSpec
from treadle.wire.fleet.messages import RateReported, RunActivity, RunBeatAnswer, TreeSeen
from treadle.wire.fleet.records import NOT_HERE, Used
from treadle.wire.sidecar.receipts import AssistantSaid, Receipt

if TYPE_CHECKING:
    from treadle.host.run import HostRun
    from treadle.receipts.trace import Check

log = logging.getLogger(__name__)

RECEIPT_MAX = 1024 * 1024
"""The largest receipt, in bytes, that is sent with the order; a larger one goes to the object store."""
PATIENCE_SECONDS = 600.0
QUIET_SECONDS = 5.0
"""After this many seconds without an event the process tree is looked at, and again after as many."""
BUSY_CPU = 0.05
KEEP_TRIES, KEEP_SECONDS = 5, 1.0
"""How often, and with what pause, it is tried to keep finished work."""
PARK_SECONDS = 60.0
"""How long an account waits when its provider says "too many requests" without saying until when."""


class Execution:
    def __init__(self, attempt: RunningAttempt) -> None:
        self.attempt = attempt
        self.spec = attempt.spec
        self.result: dict[str, Any] = {}
        self.meter = Meter(attempt, self.stop)
        self.questions = Questions(attempt, self.answer, self.park)
        self.messages = Messages(attempt, self.steer, self.say_next)
        self.checkpoints = Checkpoints(attempt)
        self.typed = TypedAnswer(self.spec.answer, {})
        self.before = continuing.Before()
        self.brief = ""
        """What the order builds on, added to the task."""
        self._host: HostRun | None = None
        self._doing = "starting"
        self._since = time.time()
        self._tools: dict[str, str] = {}
        self._last_event = time.time()
        self._looked = 0.0
        self._busy = 0.0
        """When its processes were last seen to use CPU."""
        self._tree_seen = TreeSeen()
        self._last_call = ""
        self._repeats = 0
        self.claimed: Claimed | None = None
        self._others: dict[str, list[str]] = {}
        """What other orders hold, as last reported; it may arrive before there is a worktree."""
        self._may_begin = asyncio.Event()
        """Set when that was reported, or when there is nothing more to wait for."""
        self._began = False
        """Whether the agent has said anything."""
        self._last_turn: TurnEnded | None = None

    @property
    def used(self) -> Used:
        return self.meter.used

    # What the beat tells...

    def activity(self) -> RunActivity:
        """What the run does now and since when, with what it has used."""
        self._look_at_processes()
        return RunActivity(
            doing=self._doing,
            since=self._since,
            last_event=self._last_event,
            began=self._began,
            open_tools=list(self._tools.values()),
            asks=len(self.questions.open),
            used=self.used,
            repeats=self._repeats,
            held=self.attempt.held,
            tree=self._tree_seen,
            busy=self._busy,
            resumed=self.before.how,
            changed=list(self.checkpoints.changed),
            pid=os.getpid(),
        )

    def _look_at_processes(self) -> None:
        """When no event came for a while: check whether the processes do anything."""
        if time.time() - self._last_event < QUIET_SECONDS or time.time() - self._looked < QUIET_SECONDS:
            return
        self._looked = time.time()
        seen = evidence.of_tree(os.getpid())
        if seen.cpu - self._tree_seen.cpu > BUSY_CPU:
            self._busy = time.time()
        self._tree_seen = seen

    def _do(self, what: str) -> None:
        self._doing, self._since = what, time.time()

    async def take(self, event: AnyEvent) -> None:
        """Handle each event of the agent's session; while we wait here, the agent is held back."""
        if isinstance(event, Answered) and self.attempt.stopped is not None and event.request in self.questions.open:
            return  # no one answered: it was stopped, and the question waits for the one who goes on
        if not self.attempt.superseded.is_set():
            self.attempt.tell(event)
            await self._look(event)
            await self.attempt.may_go_on.wait()

    async def _look(self, event: AnyEvent) -> None:
        """Take from an event what the fleet has to know."""
        self._last_event = time.time()
        self._began = True
        if self._host is not None:
            self.checkpoints.opened(self._host.session_id)
        self.checkpoints.look(event)
        self.typed.look(event)
        if isinstance(event, ToolStarted):
            action = self.attempt.redactor.text(f"{event.name} {event.command or ' '.join(event.paths)}".strip())[:200]
            self._tools[event.call] = action
            call = f"{event.name} {event.command} {event.args!r}"
            self._repeats = self._repeats + 1 if call == self._last_call else 1
            self._last_call = call
            self._do(action)
        elif isinstance(event, ToolEnded):
            self._tools.pop(event.call, None)
            self._do("model")
        elif isinstance(event, Usage):
            await self.meter.count(event)
        elif isinstance(event, TurnEnded):
            self._last_turn = event
            await self.messages.turn_ended()
        elif isinstance(event, Asked):
            self._do("waiting for an answer")
            self.questions.ask(event)
        elif isinstance(event, Retrying | Failed) and event.error.code == "rate_limited":
            seconds = (event.error.retry_after_ms or PARK_SECONDS * 1000) / 1000
            await self.attempt.report(
                RateReported, account=self.spec.account, until=time.time() + seconds, why=event.error.message[:300]
            )

    async def learn(self, answer: RunBeatAnswer) -> None:
        """Take in what the scheduler sends with each beat: the limits, and what others in the same repository do."""
        self.attempt.limits = answer.limits or self.attempt.limits
        self._others = answer.claims
        self._may_begin.set()
        if self.claimed is None:
            return
        self.claimed.learn(self._others)
        if text := self.claimed.collisions(answer.collisions):
            self.attempt.tell(Warned(message=text, code="collision", ts=time.time()))
            try:
                await self.steer(text)
            except Unsupported:
                await self.say_next(text, now=False)

    async def nudge(self, why: str) -> None:
        text = f"You seem to be stuck ({why}). Look at what you have, and go on in another way or say what you need."
        await self.say_next(text, now=True)

    # Being steered...

    async def stop(self, why: TreadleError) -> None:
        if self.attempt.stopped is None:
            self.attempt.stopped = why
            self.attempt.stopping.set()
            self._may_begin.set()
            self.attempt.may_go_on.set()
            if self._host is not None:
                await self._host.stop(why)

    async def park(self) -> None:
        """Stop here; another runner continues when the question is answered."""
        self.attempt.parked = True
        await self.stop(Cancelled("it waits for an answer and gave its slot back"))

    def kill(self) -> None:
        self.attempt.stopping.set()
        self._may_begin.set()
        if self._host is not None:
            self._host.kill()

    async def answer(self, request: str, answer: Answer) -> None:
        if self._host is not None:
            self._do("model")
            await self._host.answer(request, answer)

    async def steer(self, text: str) -> bool:
        return self._host is not None and await self._host.steer(text)

    async def say_next(self, text: str, *, now: bool) -> bool:
        return self._host is not None and await self._host.say_next(text, now=now)

    # The work...

    async def run(self) -> Ended:
        timer = asyncio.create_task(self._time_out())
        try:
            if self.spec.agent.partition(":")[0] == null.NAME:
                return await agentless.run(self)
            return await self._run()
        except sources.NotHere as error:
            return Ended(outcome=NOT_HERE, why=str(error), used=self.used)
        except TreadleError as error:
            why, fault = reasons.of(None, error, None, ""), reasons.fault_of(None, error, None, "")
            return Ended(outcome="failed", why=why, reason=error.code, fault=fault, used=self.used)
        finally:
            timer.cancel()
            self.questions.close()
            self.messages.close()
            self.checkpoints.close()

    async def _time_out(self) -> None:
        """End the run at its time limit, which may change meanwhile."""
        began = time.monotonic()
        while (left := began + (self.attempt.limits.seconds or math.inf) - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 1.0))
        await self.stop(TimedOut(f"the order did not end within {self.attempt.limits.seconds:g} s"))

    async def _run(self) -> Ended:
        from treadle.agents import find_agent

        self._do("preparing the worktree")
        try:
            agent = find_agent(self.spec.agent)
            able = (await agent.probe()).capabilities if not self.spec.terminal else {}
        except NotFound as error:
            raise sources.NotHere(str(error)) from error
        self.attempt.can_resume = able.get("resume") == "native" and not self.spec.terminal
        self.attempt.can_fork = able.get("fork") == "native"
        self.typed = TypedAnswer(self.spec.answer, able)
        await self.prepare()
        if self.before.how != "session":
            await self.questions.forget()
        if self.spec.setup and not self.before.restored:
            await self.set_up()
        if self.spec.terminal:
            from treadle.fleet.run.terminal import interactive

            self._do("a terminal")
            self.checkpoints.opened("terminal")
            self.checkpoints.start()
            words = continuing.first_message(self.attempt, self.before, self.brief)
            ended = await interactive.run(self.attempt, words, self.seen_in_terminal, self.questions)
            await self.keep_result(ended.result)
            return replace(ended, result=self.result, used=self.used, approvals=self.questions.given)
        self.messages.start()
        self.checkpoints.start()
        receipt = await self._run_once(agent)
        if self.before.how == "session" and not self._began and self.attempt.stopped is None:
            # The agent does not know that session any more: give it the files and the brief.
            self.before = replace(self.before, how="brief")
            receipt = await self._run_once(agent)
        assert self._host is not None
        self._do("keeping the result")
        return await self._ended(self._host, receipt)

    async def prepare(self) -> None:
        """The worktree, with what an earlier attempt has left of it."""
        source = await sources.find(self.attempt.bus, self.spec)
        if behind := await sources.see_branch(self.spec, source):
            self.attempt.tell(Warned(message=behind, code="base", ts=time.time()))
        self.before = await continuing.prepare(self.attempt, source)
        self.brief = await frugal.brief(self.attempt.bus, self.spec, source)
        assert self.before.tree is not None
        self.attempt.tree = self.before.tree
        self.attempt.root = self.attempt.tree.root
        if self.attempt.tree.top:
            self.attempt.taker = await asyncio.to_thread(trees.WorkTaker, self.attempt.tree, self.spec.bring)
        await self._know_claims()

    async def _know_claims(self) -> None:
        """What others hold binds from the agent's first step on, so wait until it was reported once."""
        assert self.attempt.tree is not None
        if self.attempt.taker is None:
            return
        await self._may_begin.wait()
        if self.attempt.superseded.is_set():
            raise Cancelled("another attempt has the order")
        self.claimed = Claimed(self.attempt.tree.top, self.attempt.root, self.attempt.taker.dirty)
        self.claimed.learn(self._others)

    async def _run_once(self, agent: Agent) -> Any:
        from treadle.host.confine import asked_by_order
        from treadle.host.job import Job
        from treadle.host.order import make_order
        from treadle.host.run import HostRun
        from treadle.host.signing import load_signer
        from treadle.host.store import ReceiptStore
        from treadle.workspace.prepared import WorkspaceMode

        assert self.attempt.tree is not None
        words = [continuing.first_message(self.attempt, self.before, self.brief), await self.questions.before()]
        order = make_order(
            "\n\n".join(filter(None, words)),
            self.attempt.root,
            model=self.spec.model,
            max_turns=self.attempt.limits.turns,
            policy=sources.policy_of(self.spec),
        )
        mode: WorkspaceMode = "pass_through" if self.attempt.tree.top or self.spec.in_place else "staged"
        taker = self.attempt.taker
        walls = asked_by_order(self.spec.network, self.attempt.root, taker.shown() if taker is not None else ())
        self._host = HostRun(
            Job(
                order=order,
                backend=agent,
                mode=mode,
                check=self.spec.verify or None,
                confinement=replace(walls, use="off") if self.spec.mode == "yolo" else walls,
                origin=taker.origin if taker is not None else None,
            ),
            ReceiptStore(signer=load_signer()),  # the person's own: `treadle receipt` shows what orders did, too
            sink=self.take,
            adjust=self._adjusted,
        )
        self._do("model")
        if self.attempt.stopped is not None:
            await self._host.stop(self.attempt.stopped)
        return await self._host.run()

    async def set_up(self) -> None:
        done = await self.run_command(self.spec.setup, "setup")
        if not done.ok:
            raise WorkspaceError(f"the setup failed with code {done.exit_code}: {done.output_tail[-1000:]}")

    async def run_command(self, command: str, doing: str) -> Check:
        """Run one of the order's own commands in its worktree, confined like its agent."""
        from treadle.host.check import run_check
        from treadle.host.confine import confined_check

        self._do(doing)
        if self.spec.mode == "yolo":
            return await run_check(command, self.attempt.root)
        shown = self.attempt.taker.shown() if self.attempt.taker is not None else ()
        setup, network = doing == "setup", self.spec.network
        return await confined_check(command, self.attempt.root, shown=shown, setup=setup, network=network)

    def _adjusted(self, spec: SessionSpec) -> SessionSpec:
        limits = replace(spec.limits, max_tokens=None, max_cost_usd=None)  # the meter enforces these
        mode = self.spec.mode or spec.mode or "auto-edit"
        # The engine enforces the deadline; the session's own is for when the engine is away.
        patience = self.spec.answer_seconds + PATIENCE_SECONDS
        guards = self.claimed.guards(spec.guards) if self.claimed is not None else spec.guards
        start = spec.start
        if self.before.how == "session":
            start = replace(start, resume=self.before.session, fork=self.before.fork)
        return replace(
            self.typed.offered(spec),
            answers=True,
            answer_seconds=patience,
            limits=limits,
            mode=mode,
            trusted=False,
            start=start,
            guards=replace(guards, calling=self.meter.before_call),
        )

    async def _ended(self, host: HostRun, receipt: Any) -> Ended:
        from treadle.wire.sidecar.receipts import encode as encode_receipt

        observed = host.observed
        outcome = observed.outcome()
        verified = None if observed.check is None else observed.check.ok
        result = {"verified": verified, "says": _last_words(receipt)}
        if self.typed.given is not None:
            result["answer"] = self.typed.given
        if problem := await self.keep_finished(result):
            return Ended(outcome="failed", why=problem, reason="storage_error", fault="ours", used=self.used)
        text = encode_receipt(receipt)
        stored: Any = msgspec.Raw(text)
        if len(text) > RECEIPT_MAX:
            name = self.attempt.object_name("receipt")
            await objects.put(self.attempt.bus, name, self.attempt.redacted(text))
            stored = {"object": name}
        cancelled = self.attempt.stopped is not None and self.attempt.stopped.code == "cancelled"
        state = "done" if outcome == "complete" else "cancelled" if cancelled else "failed"
        failure = reasons.not_verified(self.spec.verify) if verified is False else ""
        stopped = self.attempt.stopped or observed.stopped
        met = (stopped, observed.error, self._last_turn, failure)
        why, reason = ("", "") if state == "done" else (reasons.of(*met), reasons.code_of(*met))
        fault = "" if state == "done" else reasons.fault_of(*met)
        output = observed.check.output_tail if observed.check is not None and fault == "verify" else ""
        return Ended(
            outcome=state,
            why=why,
            reason=reason,
            fault=fault,
            output=output[-OUTPUT_MAX:],
            used=self.used,
            result=self.result,
            receipt=stored,
            approvals=self.questions.given,
        )

    async def keep_finished(self, result: dict[str, Any]) -> str:
        """Keep what the agent has finished, trying again for a while. What is wrong if that is not possible: our fault,
        not the agent's."""
        for left in reversed(range(KEEP_TRIES)):
            try:
                await self.keep_result(dict(result))
                return ""
            except TreadleError as error:
                log.warning("the result is not stored yet: %s", error)
                if not left or self.attempt.superseded.is_set():
                    return f"the agent has finished, but we could not keep its work (our fault): {error}"
                await asyncio.sleep(KEEP_SECONDS)
        return ""

    async def keep_result(self, result: dict[str, Any]) -> None:
        """Store the result: the work as a commit, a patch and a bundle."""
        self.result = result
        taker = self.attempt.taker
        if taker is not None and not self.attempt.superseded.is_set():
            title = f"{self.attempt.job.order.title}\n\nOrder {self.spec.id}, attempt {self.attempt.job.attempt}."
            await self.checkpoints.keep()
            left = await asyncio.to_thread(taker.commit, await taker.head(), title)
            fields, patch = await asyncio.to_thread(taker.result, left)
            self.result |= fields
            self._compare_with_claims()
            if left.commit != taker.tree.start:
                await self._store_result(patch, await asyncio.to_thread(taker.bundle, left.commit))
        self.result["capsule"] = frugal.capsule(self.spec, self.attempt.job.order.title, self.result)

    def seen_in_terminal(self, state: str, quiet: float) -> None:
        """What the program in the order's terminal seems to do, and since when it has written nothing."""
        self._last_event, self._began = time.time() - quiet, True
        if self._doing != f"terminal: {state}":
            self._do(f"terminal: {state}")

    def _compare_with_claims(self) -> None:
        """Report where the work went beyond what the order claimed, or into what others hold."""
        changed = [str(path) for path in self.result.get("changed") or ()]
        if self.spec.claims:
            own = [Surface(text) for text in self.spec.claims]
            beyond = [path for path in changed if not any(Surface.of(path).overlaps(each) for each in own)]
            if beyond:
                self.result["outside_claims"] = beyond
        if self.claimed is not None and (held := self.claimed.holders(changed)):
            self.result["under_claims_of"] = held

    async def _store_result(self, patch: bytes, bundle: bytes) -> None:
        stored = {"patch": self.attempt.object_name("patch"), "bundle": self.attempt.object_name("bundle")}
        await objects.put(self.attempt.bus, stored["patch"], patch)
        await objects.put(self.attempt.bus, stored["bundle"], bundle)
        self.result |= {**stored, "bundled": trees.RESULT}
        self.result |= {"node": self.attempt.job.node, "branch": trees.branch_name(self.spec.id)}

    async def settle(self, counted: bool) -> None:
        if self.attempt.tree is not None:
            tree, taker = self.attempt.tree, self.attempt.taker
            await asyncio.to_thread(trees.settle, tree, taker, self.spec.id, self.result, counted=counted)
            if counted and self.attempt.tree.source:
                capsule = self.result.get("capsule") or {}
                await asyncio.to_thread(frugal.leave, self.spec, self.attempt.tree.source, capsule, self.used)
        self.attempt.locks.close()


def _last_words(receipt: Receipt) -> str:
    texts = [event.text for event in receipt.trace if isinstance(event, AssistantSaid)]
    return texts[-1][-2000:] if texts else ""
