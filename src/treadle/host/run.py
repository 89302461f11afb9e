"""The control plane: give an order to a sidecar or an agent, watch it, and leave a receipt, whatever happens.

When the host dies, its keeper process ends the sidecar. The next host, or `treadle host recover`, finds the run's
directory (`job.py`) with no one holding its lock, and writes the receipt from what is there (`conclusion.py`).
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from treadle import errors
from treadle.drivers.confined import Enclosure, started
from treadle.drivers.sidecar.peer import ENVIRONMENT, SidecarPeer, Timing
from treadle.host import conclusion
from treadle.host import job as jobs
from treadle.host.conclusion import describe_error
from treadle.host.confine import Cage, found_check, trusted_setup, verify
from treadle.host.event_file import EventFile, encode_events
from treadle.host.job import MAKING
from treadle.host.order import RunSupervisor
from treadle.host.signing import RunRegistration
from treadle.host.store import ReceiptStore
from treadle.io.files import locked, read, rename, write_atomic
from treadle.io.paths import private_dir
from treadle.io.sandbox.places import is_under
from treadle.io.tasks import end_tasks, heeding, looked
from treadle.policy.environment import reduced
from treadle.receipts.artifacts import collect
from treadle.receipts.trace import Check, Covers, Observed, Walls
from treadle.receipts.work import Adjust, AgentWork, Sink, identity, manifest, passthrough
from treadle.sandboxed.checks import run_check
from treadle.sandboxed.repositories import bundle_inside
from treadle.session import Agent, AgentInfo, Answer, SessionSpec
from treadle.sessions import telemetry
from treadle.verification.ending import CheckedEnding, claims_success, ending_of
from treadle.verification.finding import NONE
from treadle.wire.common.connection import CAP
from treadle.wire.sidecar.connection import Final, SidecarHello, WorkOrder, unmet
from treadle.wire.sidecar.receipts import CONTRACT, AnyAgentEvent, AssistantSaid, Receipt, encode
from treadle.wire.sidecar.repair import Deviation
from treadle.workspace.merge import MergePlan
from treadle.workspace.workspace import Workspace, prepare

# An executor carries out an order: a sidecar process on its wire, or an agent of ours with its session in here.


class SidecarExecutor:
    guards = False
    """Whether the policy is checked before every act, and not only applied to what was seen."""
    covers: Covers = "sidecar"

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        name: str,
        timing: Timing,
        cap: int = CAP,
        enclosure: Enclosure | None = None,
    ) -> None:
        self._argv = argv
        self._enclosure = enclosure
        self._look: Callable[[], None] | None = None
        """Looks for protected files that it has made, when it has ended."""
        self.taken_out: list[str] = []
        self._taking_out: list[Deviation] = []
        self._env = env
        self._name = name
        self._timing = timing
        self._cap = cap
        self._peer: SidecarPeer | None = None
        self._aborted: errors.TreadleError | None = None

    @property
    def final(self) -> Final | None:
        return self._peer.final if self._peer else None

    async def hello(self, order: WorkOrder) -> SidecarHello:
        env = {**self._env, **order.config.env}
        root, name = order.workspace.root, self._name
        self._root = os.path.realpath(root)
        spawn = partial(SidecarPeer.spawn, self._argv, env=env, cwd=root, name=name, timing=self._timing, cap=self._cap)
        if self._enclosure is not None:
            await self._enclosure.ready(self._note)
            self._look = await looked(self._enclosure.watching(None, ruled=False))
        self._peer = await started(self._enclosure, spawn)
        if self._aborted is not None:
            raise self._aborted
        return await self._peer.await_hello()

    def run(self, order: WorkOrder, run_id: str) -> AsyncGenerator[Sequence[AnyAgentEvent], None]:
        assert self._peer is not None
        return self._peer.run(order, run_id)

    async def cancel(self, reason: str) -> None:
        if self._peer is not None:
            await self._peer.cancel(reason)
        else:
            self._aborted = errors.Cancelled(reason)

    def abort(self, error: errors.TreadleError) -> None:
        self._aborted = error
        if self._peer is not None:
            self._peer.abort(error)

    async def close(self) -> None:
        if self._peer is not None:
            await self._peer.close()
        if self._look is not None:
            try:
                await asyncio.to_thread(self._look)
            except errors.Denied as error:
                self._taking_out.append(Deviation(where="workspace", problem=str(error)))
                self.taken_out = [os.path.relpath(path, self._root) for path in error.details["files"]]
        if self._enclosure is not None:
            await self._enclosure.finish(self._note)

    def _note(self, problem: str) -> None:
        self._taking_out.append(Deviation(where="git", problem=problem))

    session_id = ""

    async def steer(self, text: str) -> bool:
        raise errors.Unsupported("a sidecar accepts no messages: its protocol has none")

    async def say_next(self, text: str, *, now: bool = False) -> bool:
        return await self.steer(text)

    async def answer(self, request: str, answer: Answer) -> None:
        raise errors.NotFound("a sidecar asks no questions")

    @property
    def notes(self) -> Sequence[Deviation]:
        if self._peer is None:
            return []
        left_out = self._peer.wire.notes_left_out
        more = [Deviation(where="notes", problem=f"{left_out} more were made")] if left_out else []
        gate = self._enclosure.gate if self._enclosure is not None else None
        refused = [Deviation(where="network", problem=why) for why in gate.refused.values()] if gate else []
        warning = self._enclosure.warning if self._enclosure is not None else None
        exceeded = self._peer.child.exceeded("")
        problems = [one for one in (warning.message if warning is not None else "", exceeded) if one]
        about = [Deviation(where="sandbox", problem=one) for one in problems]
        return [*self._peer.notes, *more, *refused, *about, *self._taking_out]

    @property
    def reaches(self) -> Sequence[str] | None:
        return self._enclosure.reaches if self._enclosure is not None else None

    @property
    def exit_code(self) -> int | None:
        return self._peer.child.exit_code if self._peer else None

    @property
    def stderr_tail(self) -> str:
        return self._peer.child.tail.text if self._peer else ""

    @property
    def commands_seen(self) -> Sequence[str]:
        return list(self._peer.commands_seen) if self._peer else []


class AgentExecutor:
    exit_code = None
    stderr_tail = ""
    commands_seen = None
    """No one looked."""
    notes: Sequence[Deviation] = ()
    taken_out: Sequence[str] = ()

    def __init__(self, agent: Agent, timing: Timing, *, adjust: Adjust | None = None, sink: Sink | None = None) -> None:
        self.final: Final | None = None
        self.work: AgentWork | None = None
        self._agent = agent
        self._timing = timing
        self._adjust = adjust
        self._sink = sink
        self._info = AgentInfo(name=agent.name)
        self._aborted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def covers(self) -> Covers:
        return "commands" if self._agent.name == "native" else "agent"

    @property
    def reaches(self) -> Sequence[str] | None:
        return self.work.reaches if self.work is not None else None

    @property
    def guards(self) -> bool:
        return self._info.capabilities.get("guards") == "native"

    async def hello(self, order: WorkOrder) -> SidecarHello:
        try:
            async with asyncio.timeout(self._timing.handshake):
                self._info = await self._agent.probe()
        except TimeoutError:
            raise errors.TimedOut(
                f"{self._agent.name} did not report its capabilities within {self._timing.handshake:g} s"
            ) from None
        return SidecarHello(
            contract_version=CONTRACT,
            backend=identity(self._info),
            capabilities=manifest(self._info),
            mode="passthrough" if passthrough(order) else "mapped",
        )

    async def run(self, order: WorkOrder, run_id: str) -> AsyncGenerator[Sequence[AnyAgentEvent], None]:
        work = self.work = AgentWork(run_id, order, self._agent, self._info, adjust=self._adjust, sink=self._sink)
        batches = work.events()
        try:
            while True:
                coming: asyncio.Future[Any] = asyncio.ensure_future(anext(batches, None))
                await asyncio.wait({coming, self._aborted}, return_when=asyncio.FIRST_COMPLETED)
                if self._aborted.done():
                    await end_tasks(coming)
                    self._aborted.result()
                events = await coming
                if events is None:
                    break
                yield events
        finally:
            await batches.aclose()
        self.final = Final(ref_id=run_id, receipt=work.receipt())

    async def cancel(self, reason: str) -> None:
        if self.work is None:
            self.abort(errors.Cancelled(reason))
            return
        try:
            async with asyncio.timeout(self._timing.cancel_grace):
                await self.work.cancel(reason)
        except TimeoutError:
            self.abort(errors.Cancelled(f"{self._agent.name} did not stop within {self._timing.cancel_grace:g} s"))

    def abort(self, error: errors.TreadleError) -> None:
        if not self._aborted.done():
            self._aborted.set_exception(error)

    async def close(self) -> None:
        if self.work is not None:
            await self.work.close()
        if not self._aborted.cancel():
            self._aborted.exception()  # it was reported already, or no one is left to report it to

    async def steer(self, text: str) -> bool:
        return self.work is not None and await self.work.steer(text)

    async def say_next(self, text: str, *, now: bool = False) -> bool:
        return self.work is not None and await self.work.say_next(text, now=now)

    @property
    def session_id(self) -> str:
        return self.work.session.id if self.work is not None and self.work.session is not None else ""

    async def answer(self, request: str, answer: Answer) -> None:
        if self.work is None:
            raise errors.NotFound("nothing has been asked yet")
        await self.work.answer(request, answer)


Executor: TypeAlias = SidecarExecutor | AgentExecutor
"""Call `hello` first, then `run`, and `close` in any case. After `close`, no process of the executor is left."""


# What is done with the result of a run beside the receipt: taking its commits.


async def commits_of(workspace: Workspace, cage: Cage) -> str | None:
    """The run's last commit, brought into our store with all before it. None when it is the one that it began with.

    The bundle is made by a git inside the sandbox, because the repository there is the agent's. Raises WorkspaceError
    when nothing was confined, or when what came out is not whole.
    """
    place = workspace.place
    if not await asyncio.to_thread(workspace.has_committed):
        return None
    walls = cage.inside()
    if walls is None:
        raise errors.WorkspaceError("its commits are not in the branch, because it was not sandboxed")
    bundle = await bundle_inside(walls, workspace.root, ["HEAD", f"^{place.start}"])
    return await asyncio.to_thread(workspace.take_commits, bundle)


log = logging.getLogger(__name__)

LOOK_FOR_CANCEL = 0.5
NO_TIME = "there was no time left to check it"
LOOK_SECONDS = 30.0
"""For looking at what was done, when the run's own time is over."""
Listener = Callable[[Sequence[AnyAgentEvent]], None]


class HostRun:
    """One order being carried out. `stop`, `steer` and `answer` may be called at any time, from the same loop.

    `listener` hears the contract's events in batches. With an agent, `sink` is awaited with each of its session's own
    events, and `adjust` has the last word on the SessionSpec (such as `answers=True` when someone can answer).
    `earlier` are the outcomes of earlier attempts, for the receipt; `order_name` is what a fleet calls the order.
    """

    def __init__(
        self,
        job: jobs.Job,
        store: ReceiptStore,
        *,
        listener: Listener | None = None,
        sink: Sink | None = None,
        adjust: Adjust | None = None,
        run_id: str | None = None,
        earlier: Sequence[dict[str, Any]] = (),
        order_name: str = "",
    ) -> None:
        self.job = job
        self.run_id = run_id or str(uuid.uuid4())
        self._order_name = order_name or job.order.id
        self.directory = os.path.join(jobs.runs_directory(), self.run_id)
        self._begun = time.monotonic()
        self.observed = Observed(self.run_id, job.order, job.backend.name, time.time())
        self.observed.attempts = list(earlier)
        self.observed.own_wire = not isinstance(job.backend, jobs.Backend) and job.backend.name == "native"
        self._store = store
        self._listener = listener
        self._sink = sink
        self._adjust = adjust
        self._executor: Executor | None = None
        self._workspace: Workspace | None = None
        self._checking: asyncio.Task[Check] | None = None
        self._finding: asyncio.Task[CheckedEnding] | None = None
        """The check that no one asked for."""
        self._late = False
        """Whether there was no time for it."""
        self._setup: str | None = None
        """What runs before a check."""
        self._halt = threading.Event()
        """Stops the thread that prepares the workspace, which may have much to copy."""
        self._concluding = False
        self._enough = threading.Event()
        """Stops the threads that look at what was done, which may be very much."""
        self._outputs: list[EventFile] = []
        self._cage: Cage | None = None
        self._taken_out: Sequence[str] = ()
        self._registered: RunRegistration | None = None
        self._repository: str | None = None
        self._asked = False
        """Whether approval was asked, where required, before anything happened."""
        self.not_copied: errors.TreadleError | None = None
        """Why the receipt is not in `job.out_path`, if it is not."""

    async def run(self) -> Receipt:
        """Run the order and return the stored receipt. Errors of the run are in it and in `observed.error`; only an
        error that keeps the receipt from being stored is raised.
        """
        # Made under another name, so that it is locked before anybody can mistake it for an abandoned run.
        making = private_dir(os.path.join(jobs.runs_directory(), f"{MAKING}{self.run_id}"))
        spans = telemetry.run_span(self.run_id, self._order_name, self.observed.outcome)
        with spans, locked(os.path.join(making, "lock"), 0):
            rename(making, self.directory)
            self._record()
            self._note_order()
            timers = [asyncio.create_task(self._time_out()), asyncio.create_task(self._look_for_cancel())]
            try:
                await self._work()
            except errors.TreadleError as error:
                self.observed.error = error
            except Exception as error:
                log.exception("a run failed with an unexpected error", extra={"run": self.run_id})
                self.observed.error = errors.LocalError(f"{type(error).__name__}: {error}")
            finally:
                await end_tasks(*timers)
            return await self._conclude()

    @property
    def left(self) -> Workspace | None:
        """The workspace, if what was done there is known."""
        return self._workspace if self.observed.difference is not None else None

    def _record(self) -> None:
        record = jobs.RunRecord(
            format=jobs.FORMAT,
            run_id=self.run_id,
            order=self.job.order,
            backend=self.job.backend.name,
            mode=self.job.mode,
            started=self.observed.started,
            pid=os.getpid(),
            out_path=os.path.abspath(self.job.out_path) if self.job.out_path else None,
            receipts=os.path.abspath(self._store.directory),
            walls=self.observed.walls,
            enforced=self.observed.enforcement,
            repository=self._repository,
            registered=self._registered,
        )
        jobs.RUN.save(os.path.join(self.directory, "run.json"), record)

    async def stop(self, why: errors.TreadleError) -> None:
        """Ask the executor to stop, for this reason; what it says within its grace period still counts."""
        if self._concluding:
            self._enough.set()
        if self.observed.stopped is None:
            self.observed.stopped = why
            self._halt.set()
            if self._checking is not None:
                self._checking.cancel()
            if self._executor is not None:
                await self._executor.cancel(str(why))

    def skip_found_check(self) -> bool:
        """The time is over: end the check that no one asked for, which takes nothing from the result. False if that is
        not what is being done."""
        if self._finding is None:
            return False
        self._late = True
        return self._finding.cancel()

    def kill(self) -> None:
        """Do not wait for it to stop by itself."""
        if self._concluding:
            self._enough.set()
        if self._executor is not None:
            self._executor.abort(errors.Cancelled("it had no time to stop"))

    async def steer(self, text: str) -> bool:
        """Give the agent text at its next step. False when it has none left or cannot be steered."""
        return self._executor is not None and await self._executor.steer(text)

    async def say_next(self, text: str, *, now: bool = False) -> bool:
        """Send this in a further turn of the session, when the running one has ended; `now` ends that one for it.

        False when there is no turn to follow. The receipt covers all turns together.
        """
        return self._executor is not None and await self._executor.say_next(text, now=now)

    @property
    def session_id(self) -> str:
        """The id with which the agent's session can be resumed; empty while there is none."""
        return self._executor.session_id if self._executor is not None else ""

    async def answer(self, request: str, answer: Answer) -> None:
        """Answer an Asked that `sink` was given. Raises NotFound when it is no longer open."""
        if self._executor is None:
            raise errors.NotFound("nothing has been asked yet")
        await self._executor.answer(request, answer)

    @property
    def _ours(self) -> bool:
        return isinstance(self.job.backend, jobs.Backend) and self.job.backend.ours

    @property
    def _seconds(self) -> float | None:
        """How long the run may take."""
        if self.job.timeout is None and isinstance(self.job.backend, jobs.Backend):
            return self.job.backend.timeout
        return self.job.timeout

    async def _time_out(self) -> None:
        if (seconds := self._seconds) is not None:
            await asyncio.sleep(seconds)
            await self.stop(errors.TimedOut(f"the run did not end within {seconds:g} s"))

    async def _limit_looking(self) -> None:
        """Our own work after the run is bounded too; a run that used all its time leaves us some."""
        if (seconds := self._seconds) is not None:
            await asyncio.sleep(max(LOOK_SECONDS, self.observed.started + seconds - time.time()))
            if self.skip_found_check():
                await asyncio.sleep(LOOK_SECONDS)  # to apply what was done, or make its branch
            self._enough.set()
            late = errors.TimedOut(f"the changes could not be examined within {LOOK_SECONDS:g} s after the run")
            self.observed.stopped = self.observed.stopped or late
            if self._checking is not None:
                self._checking.cancel()

    async def _look_for_cancel(self) -> None:
        """Watch for the file that `treadle host cancel` leaves in the run's directory."""
        place = os.path.join(self.directory, jobs.CANCEL)
        while not os.path.exists(place):
            await asyncio.sleep(LOOK_FOR_CANCEL)
        await self.stop(errors.Cancelled(read(place).decode(errors="replace")[:1000] or "it was cancelled"))

    # The work

    async def _work(self) -> None:
        order = self.job.order
        # A policy that cannot be understood is refused before anything is started.
        watched = RunSupervisor(order).denied_writes()
        try:
            with heeding(self._halt):
                self._workspace = await asyncio.to_thread(
                    prepare,
                    self.job.mode,
                    order.workspace.root,
                    self.directory,
                    name=self.run_id[:8],
                    include=order.workspace.include,
                    exclude=order.workspace.exclude,
                    watched=watched,
                    origin=self.job.origin,
                )
        except errors.Cancelled:
            self._check_stopped()
            raise
        if self.job.begun is not None:
            order = await self._going_on(self.job.begun, self._workspace)
        wire_mode = "pass_through" if self.job.mode == "pass_through" else "staged"
        order = replace(order, workspace=replace(order.workspace, root=self._workspace.root, mode=wire_mode))
        self.observed.order = order
        self.observed.notes += [Deviation(where="workspace", problem=note) for note in self._workspace.notes]
        self._repository = await asyncio.to_thread(conclusion.repository_of, self._workspace)
        self._check_stopped()
        if self.job.check is not None or self.job.finds_check:
            await asyncio.to_thread(self._workspace.remember_refs)
            self._setup = self.job.setup or await asyncio.to_thread(trusted_setup, self._workspace)
        self._cage = self._made_cage(self._workspace, order)
        self.observed.notes += [Deviation(where="sandbox", problem=one) for one in self._cage.unenforced()]
        self._executor = self._made_executor(self._cage)
        self.observed.walls = self._stated(self._cage, self._executor)
        await self._register(self._workspace, self._cage)
        self._record()
        try:
            self.observed.hello = await self._executor.hello(order)
            self.observed.handshaking = False
            await self._converse(self._executor, self.observed.hello, order)
        finally:
            await self._part(self._executor)

    async def _going_on(self, begun: jobs.Begun, workspace: Workspace) -> WorkOrder:
        """The order as the agent is told it, with the files as the backend before has left them."""
        done = await asyncio.to_thread(workspace.go_on_from, begun.workspace)
        if not done.conflicts:
            return replace(self.job.order, task=f"{begun.handover}\n\n{self.job.order.task}")
        problem = f"begun again, because the source has changed: {done.conflicts[0].path}"
        self.observed.notes.append(Deviation(where="workspace", problem=problem))
        return self.job.order

    async def _register(self, workspace: Workspace, cage: Cage) -> None:
        """Register the run with the signer, which looks from inside the sandbox whether the key's file can be read."""
        if self._store.signer is None:
            return
        walls, reach, start = cage.inside(), True, workspace.place.start_tree
        if walls is not None:
            looked = await run_check(self._store.signer.reached_if, workspace.root, confinement=walls)
            reach = looked.exit_code != 1
        self._registered = await asyncio.to_thread(
            self._store.register, self.run_id, self.observed.order_path, start, key_in_reach=reach
        )

    def _made_cage(self, workspace: Workspace, order: WorkOrder) -> Cage:
        # Not those in the workspace itself: there lies the agent's own git directory, in which it commits.
        lenders = workspace.store.lenders if self.job.mode != "staged" else ()
        objects = [place for place in lenders if not is_under(place, workspace.root)]
        committed: Sequence[str] = ()
        repository = None
        if order.policy.deny_read:
            base = workspace.store.files(workspace.place.whole or workspace.place.before) if lenders else {}
            committed = [os.path.join(workspace.top, path) for path in base]
            user = workspace.place.repository() if self.job.mode == "staged" else None
            repository = user.common if user is not None else None
        source = self.job.order.workspace.root
        return Cage(
            self.job.confinement,
            order,
            self.run_id,
            source,
            objects,
            committed=committed,
            repository=repository,
            seconds=self._seconds,
        )

    def _made_executor(self, cage: Cage) -> Executor:
        backend, job = self.job.backend, self.job
        if not isinstance(backend, jobs.Backend):

            def adjust(spec: SessionSpec) -> SessionSpec:
                spec = replace(spec, confinement=cage.asked)
                return self._adjust(spec) if self._adjust is not None else spec

            return AgentExecutor(backend, job.timing, adjust=adjust, sink=self._sink)
        env = reduced(os.environ, (*ENVIRONMENT, *backend.env), providers=True)
        argv = jobs.absolute_command(backend.argv)
        if backend.ours:
            return SidecarExecutor([*argv, *cage.options()], env, backend.name, job.timing, job.line_cap)
        made = cage.around(backend.name, argv, {**env, **job.order.config.env})
        return SidecarExecutor(argv, env, backend.name, job.timing, job.line_cap, made)

    def _check_stopped(self) -> None:
        if self.observed.stopped is not None:
            raise self.observed.stopped

    async def _converse(self, executor: Executor, hello: SidecarHello, order: WorkOrder) -> None:
        observed = self.observed
        observed.unmet = unmet(order.requirements, hello.capabilities)
        if observed.unmet:
            raise errors.Unsupported(
                f"{self.job.backend.name} does not offer what the order requires: {'; '.join(observed.unmet)}",
                hint="choose another backend, or require less",
            )
        self._check_stopped()
        assert self._cage is not None
        observed.enforcement = self._cage.enforced(guards=executor.guards, ours=self._ours)
        observed.walls = self._stated(self._cage, executor)
        self._record()
        self._asked = executor.guards
        supervisor = RunSupervisor(order, asked=executor.guards, confined=observed.walls is not None)
        self._open_outputs()
        try:
            async with contextlib.aclosing(executor.run(order, self.run_id)) as batches:
                async for events in batches:
                    self._keep(events)
                    why = supervisor.watch(events)
                    if why is not None:
                        await self.stop(why)
        except errors.PolicyNotEnforceable:
            observed.enforcement = None  # it did not begin
            raise
        observed.final = executor.final

    def _open_outputs(self) -> None:
        redactor = conclusion.redactor_of(self.job.order)
        self._outputs.append(EventFile(os.path.join(self.directory, "events.jsonl"), redactor))
        if self.job.events_path is not None:
            self._outputs.append(EventFile(self.job.events_path, redactor))

    def _keep(self, events: Sequence[AnyAgentEvent]) -> None:
        lines = encode_events(events)
        self.observed.trace.extend(events, len(lines))
        for output in list(self._outputs):
            try:
                output.write(events, lines)
            except errors.StorageError as error:
                # The run goes on: what was seen is still in memory, and the receipt says what is missing.
                self.observed.notes.append(Deviation(where="events", problem=str(error)))
                self._outputs.remove(output)
                output.close()
        if self._listener is not None:
            try:
                self._listener(events)
            except OSError as error:  # for example, the terminal was closed: no one reads it any more
                self.observed.notes.append(Deviation(where="listener", problem=str(error)))
                self._listener = None

    def _note_order(self) -> None:
        """Keep the whole order. The parts that make the run comparable with others are also in the receipt."""
        observed, backend = self.observed, self.job.backend
        observed.command = backend.argv if isinstance(backend, jobs.Backend) else ()
        try:
            observed.order_path = self._store.keep_order(self.job.order, conclusion.redactor_of(self.job.order))
        except (errors.TreadleError, ValueError) as error:
            observed.notes.append(Deviation(where="order", problem=f"not stored: {error}"))

    def _stated(self, cage: Cage, executor: Executor) -> Walls | None:
        covers = "commands" if self._ours else executor.covers
        return cage.stated(covers=covers, reaches=executor.reaches)

    async def _part(self, executor: Executor) -> None:
        await executor.close()
        assert self._cage is not None
        self.observed.walls = self._stated(self._cage, executor)
        self.observed.exit_code = executor.exit_code
        self.observed.stderr_tail = executor.stderr_tail
        self.observed.commands_seen = executor.commands_seen
        self._taken_out = executor.taken_out
        self.observed.notes += executor.notes
        for output in self._outputs:
            output.close()

    # After the work

    async def _conclude(self) -> Receipt:
        workspace, observed = self._workspace, self.observed
        self._concluding = True
        limit = asyncio.create_task(self._limit_looking())
        try:
            with heeding(self._enough):
                plan = await self._look_at(workspace) if workspace is not None else None
        finally:
            await end_tasks(limit)
        observed.finished = time.time()
        if observed.finished < observed.started:  # the clock was set back
            observed.started = observed.finished - (time.monotonic() - self._begun)
        # On disk before anything is applied: if we are killed now, the next host has all it needs to finish.
        made = await asyncio.to_thread(conclusion.make_receipt, observed)
        write_atomic(os.path.join(self.directory, jobs.PENDING), encode(made))
        if workspace is not None and plan is not None:
            made = await self._apply(workspace, plan, made)
        if self._executor is None:  # no agent has started, so nothing that could read the key
            base = workspace.place.start_tree if workspace is not None else None
            self._registered = self._store.register(self.run_id, observed.order_path, base, key_in_reach=False)
        receipt = await asyncio.to_thread(self._store.add, made, self._registered)
        try:
            if self.job.out_path is not None:
                conclusion.write_copy(receipt, self.job.out_path)
        except errors.TreadleError as error:
            self.not_copied = error
        await asyncio.to_thread(conclusion.settle, self.directory, observed, workspace, self.job.keep_workspace)
        if self._cage is not None:
            self._cage.close()
        return receipt

    async def _look_at(self, workspace: Workspace) -> MergePlan | None:
        """Find out what was done and whether it is good; plan how to apply it to the source, if wanted."""
        observed = self.observed
        plan = None
        try:
            agent = await self._commits(workspace)
            await self._compare(workspace)
            if self.job.check is not None and observed.final is not None:
                observed.check = await self._asked_check(self.job.check, workspace)
            elif self.job.finds_check and observed.final is not None:
                observed.ending = await self._ending(workspace)
            if self.job.apply and observed.outcome() == "complete":
                plan = await asyncio.to_thread(partial(workspace.plan, anyway=self.job.anyway))
                observed.merged = plan.merged if plan is not None else workspace.apply()
            if workspace.place.mode == "worktree" and observed.outcome() != "failed":
                observed.commit = await self._publish(workspace, agent)
        except Exception as error:  # whatever a run leaves behind: it began, so it has a receipt
            plan = None
            observed.notes.append(Deviation(where="workspace", problem=describe_error(error)))
        observed.workspace = await self._describe(workspace)
        return plan

    async def _describe(self, workspace: Workspace) -> dict[str, Any]:
        wanted = partial(conclusion.describe, keep=self.job.keep_workspace, apply=self.job.apply)
        return await asyncio.to_thread(wanted, workspace, self.observed, self._repository)

    async def _commits(self, workspace: Workspace) -> str | None:
        try:
            return await commits_of(workspace, self._cage) if self._cage is not None else None
        except Exception as error:  # what it committed is not needed to tell what it did
            self.observed.notes.append(Deviation(where="commits", problem=describe_error(error)))
            return None

    async def _publish(self, workspace: Workspace, agent: str | None) -> str | None:
        """Make the run's branch in the source's repository. Not for changes that are applied, if that is all."""
        merged = self.observed.merged
        if agent is None and merged is not None and not merged.conflicts:
            return None
        return await asyncio.to_thread(workspace.publish, self.job.order.task, agent)

    async def _apply(self, workspace: Workspace, plan: MergePlan, made: Receipt) -> Receipt:
        """Apply the plan. Returns the receipt with what was really done."""
        observed = self.observed
        try:
            observed.merged = await asyncio.to_thread(workspace.apply, plan)
        except Exception as error:
            observed.merged = None
            observed.notes.append(Deviation(where="workspace", problem=f"not applied: {describe_error(error)}"))
            observed.workspace = await self._describe(workspace)
            return await asyncio.to_thread(conclusion.make_receipt, observed)
        return conclusion.with_workspace(made, {"applied": observed.merged})

    async def _compare(self, workspace: Workspace) -> None:
        observed = self.observed
        try:
            found = observed.difference = await asyncio.to_thread(workspace.difference)
        except Exception as error:
            # It is not known what was done, so it cannot be called complete.
            observed.stopped = observed.stopped or errors.Denied(
                f"the changes cannot be determined: {describe_error(error)}"
            )
            raise
        if found.unread:
            observed.notes.append(Deviation(where="workspace", problem=f"not looked at: {found.unread}"))
        if found.changes:
            observed.patch_path = os.path.join(self.directory, "patch.diff")
            write_atomic(observed.patch_path, found.patch)
        if observed.final is not None and observed.final.receipt.artifacts:
            artifacts = os.path.join(self.directory, "artifacts")
            claimed = observed.final.receipt.artifacts
            observed.artifacts = await asyncio.to_thread(collect, claimed, workspace.root, artifacts)
        supervisor = RunSupervisor(observed.order, asked=self._asked)
        wrong = supervisor.judge(found.changes, (*(found.hidden or ()), *self._taken_out))
        observed.stopped = observed.stopped or wrong

    async def _ending(self, workspace: Workspace) -> CheckedEnding:
        """What the project's own check says about the result, or why it says nothing."""
        self._finding = asyncio.create_task(self._found(workspace), name="found check")
        try:
            return await self._finding
        except asyncio.CancelledError:
            if not self._late:
                raise
            return CheckedEnding(state="unverified", why=NO_TIME)
        except Exception as error:  # no one asked for it, so the result is none the worse
            return CheckedEnding(state="unverified", why=f"the check could not be run: {describe_error(error)}")
        finally:
            self._finding = None

    async def _found(self, workspace: Workspace) -> CheckedEnding:
        """Run the project's own check. What it shows counts as a check; its doubts do not."""
        observed, changed = self.observed, bool(self.observed.difference and self.observed.difference.changes)
        texts = [event.text for event in observed.trace.events("") if isinstance(event, AssistantSaid)]
        claims = claims_success(texts[-1]) if texts else False
        command, _ = await asyncio.to_thread(found_check, workspace)
        missing = ""
        if command in ("", NONE):
            missing = "no check is known for this project"
        elif self._cage is None or self._cage.inside() is None:
            missing = f"nothing is confined, so `{command}` was not run"
        elif not changed and not claims:
            missing = "no file was changed, and nothing was checked"
        elif isinstance(observed.stopped, errors.TimedOut):
            missing = NO_TIME
        if missing:
            return CheckedEnding(state="unverified", why=missing, check=command)
        done = await self._check(command, workspace, blame=True)
        if done is None or not done.evidence:
            return CheckedEnding(state="unverified", why="the check was stopped", check=command)
        ending = ending_of(command, done.evidence, changed=changed, claims=claims)
        observed.check = None if ending.state == "unverified" else done
        return replace(ending, evidence=None) if observed.check is not None else ending

    async def _asked_check(self, command: str, workspace: Workspace) -> Check | None:
        try:
            return await self._check(command, workspace)
        except Exception as error:  # a check that was asked for and cannot be run has not passed
            return Check(command=command, exit_code=None, output_tail=f"[could not be run: {describe_error(error)}]")

    async def _check(self, command: str, workspace: Workspace, *, blame: bool = False) -> Check | None:
        if isinstance(self.observed.stopped, errors.Cancelled):  # someone wants this to end
            return None
        fresh = os.path.join(self.directory, "verify")
        job = replace(self.job, check=command, setup=self._setup)
        checking = verify(job, workspace, self._cage, fresh, blame=blame)
        self._checking = asyncio.create_task(checking, name="check")
        try:
            return await self._checking
        except asyncio.CancelledError:
            if self.observed.stopped is None:
                raise
            return Check(command=command, exit_code=None, output_tail="[stopped]")
        except (errors.TreadleError, OSError) as error:
            if errors.kind_of(error) == "transient":  # such as a full disk: the work is neither good nor bad
                self.observed.error = error if isinstance(error, errors.TreadleError) else errors.LocalError(str(error))
            raise
