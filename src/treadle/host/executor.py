"""An executor carries out an order: a sidecar process on its wire, or an agent of ours with its session in here."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from treadle.drivers.confined import Enclosure, started
from treadle.drivers.sidecar.peer import SidecarPeer, Timing
from treadle.errors import Cancelled, Denied, NotFound, TimedOut, TreadleError, Unsupported
from treadle.io.tasks import end_tasks
from treadle.receipts.trace import Covers
from treadle.receipts.work import Adjust, AgentWork, Sink, identity, manifest, passthrough
from treadle.session import Agent, AgentInfo, Answer
from treadle.wire.common.connection import CAP
from treadle.wire.sidecar.connection import Final, SidecarHello, WorkOrder
from treadle.wire.sidecar.receipts import CONTRACT, AnyAgentEvent
from treadle.wire.sidecar.repair import Deviation


class Executor(Protocol):
    """Call `hello` first, then `run`, and `close` in any case. After `close`, no process of the executor is left."""

    @property
    def final(self) -> Final | None:
        """What it claims, after `run` has ended well."""
        ...

    async def hello(self, order: WorkOrder) -> SidecarHello: ...

    def run(self, order: WorkOrder, run_id: str) -> AsyncGenerator[Sequence[AnyAgentEvent], None]: ...

    async def cancel(self, reason: str) -> None:
        """Ask it to stop; it may do so in its own way, within its grace period."""
        ...

    def abort(self, error: TreadleError) -> None:
        """End `run` with this error, now."""
        ...

    async def close(self) -> None: ...

    async def steer(self, text: str) -> bool: ...

    async def say_next(self, text: str, *, now: bool = False) -> bool: ...

    async def answer(self, request: str, answer: Answer) -> None: ...

    @property
    def session_id(self) -> str:
        """The id with which its session can be resumed; empty while there is none."""
        ...

    @property
    def guards(self) -> bool:
        """Whether the policy is checked before every act, and not only applied to what was seen."""
        ...

    @property
    def covers(self) -> Covers:
        """What of it is in the sandbox, if there is one."""
        ...

    @property
    def reaches(self) -> Sequence[str] | None:
        """The hosts that the whole of it can reach; None: as the sandbox was asked for."""
        ...

    @property
    def notes(self) -> Sequence[Deviation]: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def stderr_tail(self) -> str: ...

    @property
    def commands_seen(self) -> Sequence[str] | None:
        """None when no one looked."""
        ...

    @property
    def taken_out(self) -> Sequence[str]:
        """Protected files that it made and that were moved out of the workspace, by their path there."""
        ...


class SidecarExecutor:
    guards = False
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
        self._aborted: TreadleError | None = None

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
            self._look = await asyncio.to_thread(self._enclosure.watching(None, ruled=False))
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
            self._aborted = Cancelled(reason)

    def abort(self, error: TreadleError) -> None:
        self._aborted = error
        if self._peer is not None:
            self._peer.abort(error)

    async def close(self) -> None:
        if self._peer is not None:
            await self._peer.close()
        if self._look is not None:
            try:
                await asyncio.to_thread(self._look)
            except Denied as error:
                self._taking_out.append(Deviation(where="workspace", problem=str(error)))
                self.taken_out = [os.path.relpath(path, self._root) for path in error.details["files"]]
        if self._enclosure is not None:
            await self._enclosure.finish(self._note)

    def _note(self, problem: str) -> None:
        self._taking_out.append(Deviation(where="git", problem=problem))

    session_id = ""

    async def steer(self, text: str) -> bool:
        raise Unsupported("a sidecar cannot be given messages: its contract has none for it")

    async def say_next(self, text: str, *, now: bool = False) -> bool:
        return await self.steer(text)

    async def answer(self, request: str, answer: Answer) -> None:
        raise NotFound("a sidecar asks no questions")

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
            raise TimedOut(
                f"{self._agent.name} did not say what it can do within {self._timing.handshake:g} s"
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
            self.abort(Cancelled(reason))
            return
        try:
            async with asyncio.timeout(self._timing.cancel_grace):
                await self.work.cancel(reason)
        except TimeoutError:
            self.abort(Cancelled(f"{self._agent.name} did not stop within {self._timing.cancel_grace:g} s"))

    def abort(self, error: TreadleError) -> None:
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
            raise NotFound("nothing has been asked yet")
        await self.work.answer(request, answer)
