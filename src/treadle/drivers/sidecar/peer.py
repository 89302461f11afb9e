"""A sidecar process and how one talks to it: handshake, orders, pings, cancel, and every way in which it can end.

The control plane and the driver both use this. Whatever goes wrong is one typed error, and when `close` has returned,
no process of the sidecar's tree is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType

import msgspec

from treadle.errors import (
    Cancelled,
    LocalError,
    PeerClosed,
    PeerExited,
    PeerFatal,
    PeerStalled,
    RemoteProtocolError,
    TreadleError,
    Violation,
)
from treadle.io.link import Link
from treadle.io.process import child as children
from treadle.io.process import table
from treadle.io.sandbox.start import start
from treadle.io.within import within
from treadle.session import Confinement
from treadle.wire.common.connection import CAP
from treadle.wire.sidecar.connection import (
    Cancel,
    Connection,
    Event,
    Fatal,
    Final,
    Hello,
    Message,
    Ping,
    Pong,
    Run,
    Unknown,
    WorkOrder,
)
from treadle.wire.sidecar.receipts import AnyAgentEvent
from treadle.wire.sidecar.repair import Note

ENVIRONMENT = ("ABP_*", "KIMI_*", "COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "TREADLE_*")
"""Variables that real sidecars read, beside what every agent gets."""
LAST_BYTES = 0.5
"""Seconds for what a sidecar wrote before it exited to arrive."""
LOOK_EVERY = 2.0
"""Seconds between looks at the processes of a sidecar."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds."""

    handshake: float = 10.0
    ping_every: float = 30.0
    pong_within: float = 10.0
    missed_pongs: int = 3
    quiet: float = 600.0
    """A sidecar that never answered a ping may be silent and idle for this long."""
    strict_pong: bool = False
    """Every ping must be answered within `pong_within`, also by those that never answered one."""
    cancel_grace: float = 5.0
    exit_grace: float = 0.5
    """How long a sidecar that is done may take to exit by itself."""


class Liveness:
    """Whether a running sidecar still lives, from lines, answers and CPU time. Pure: the time is passed in."""

    def __init__(self, timing: Timing, now: float) -> None:
        self.timing = timing
        self.active = now
        """When it last said anything, or used the CPU."""
        self.answers = False
        self.open: dict[int, float] = {}
        """Pings without an answer, and when they were sent."""
        self._heard = now
        self._cpu = 0.0

    def heard(self, now: float) -> None:
        self.active = self._heard = now

    def pinged(self, seq: int, now: float) -> None:
        self.open[seq] = now
        if len(self.open) > 1000:  # it never answers, and need not
            del self.open[next(iter(self.open))]

    def ponged(self, seq: int) -> bool:
        """Whether that ping had been sent."""
        known = seq in self.open
        self.answers = self.answers or known
        for other in [other for other in self.open if other <= seq]:
            del self.open[other]
        return known

    def used_cpu(self, seconds: float, now: float) -> None:
        if seconds != self._cpu:
            self._cpu, self.active = seconds, now

    def stalled(self, now: float) -> str | None:
        """Why it is taken to be stalled, or None."""
        late = [sent for sent in self.open.values() if now - sent > self.timing.pong_within]
        # Who talks is alive, whether it answers or not.
        missed = sum(1 for sent in late if sent >= self._heard)
        if self.timing.strict_pong and late:
            return f"a ping was not answered within {self.timing.pong_within:g} s"
        if self.answers and missed >= self.timing.missed_pongs:
            return f"it used to answer pings, and {missed} in a row are unanswered"
        if not self.answers and now - self.active > self.timing.quiet:
            return f"no line and no CPU time was seen for {self.timing.quiet:g} s"
        return None


class SidecarPeer:
    def __init__(self, child: children.Child, name: str, timing: Timing, cap: int) -> None:
        self.child = child
        self.name = name
        self.timing = timing
        self.wire = Connection("host", cap=cap)
        self.link: Link[Message | RemoteProtocolError, Message] = Link(child.stdio, self.wire)
        self.hello: Hello | None = None
        self.final: Final | None = None
        self.commands_seen: dict[str, None] = {}
        """Command lines of processes in its tree, as far as looking now and then finds them."""
        self._batches = self.link.batches()
        self._early: list[Message | RemoteProtocolError] = []
        self._failure: TreadleError | None = None
        self._live = Liveness(timing, time.monotonic())
        self._timers: set[asyncio.Task[None]] = set()
        self._closed = False
        self._cancelled = False
        self._gone = False
        self._limit: asyncio.Timeout | None = None
        self._timers.add(asyncio.create_task(self._see_it_exit(), name=f"exit of {name}"))

    async def _see_it_exit(self) -> None:
        """A process that it left behind can hold its output open, so the end of output is not the only sign."""
        with contextlib.suppress(LocalError):
            await self.child.wait()
        self._gone = True
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + LAST_BYTES)

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        name: str = "the sidecar",
        timing: Timing = Timing(),  # noqa: B008
        cap: int = CAP,
        confinement: Confinement | None = None,
    ) -> SidecarPeer:
        """Start it; `handshake` comes next, and `close` at the end in any case."""
        return cls(await start(confinement, argv, env=env, cwd=cwd, stdin="pipe"), name, timing, cap)

    async def __aenter__(self) -> SidecarPeer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def notes(self) -> list[Note]:
        return self.wire.notes

    async def handshake(self) -> Hello:
        """Its hello, which must be its first line, in time, and of a version that fits ours."""
        messages: Sequence[Message | RemoteProtocolError] | None = ()
        try:
            async with within(self.timing.handshake):
                while messages is not None and not messages:
                    messages = await self._lines()
        except TimeoutError:
            said = await self.child.last_words(0)
            raise PeerStalled(
                f"{self.name} said no hello within {self.timing.handshake:g} s",
                details={"stderr": said[-2000:]},
                hint="does it write its hello at once, and flush it?",
            ) from None
        if messages is None:
            raise self._failure or await self._exited()
        first, *self._early = messages
        if isinstance(first, RemoteProtocolError):
            raise await self._explained(first)
        if not isinstance(first, Hello):
            raise Violation(f"{self.name} did not say hello first")
        self.hello = first
        return first

    async def _explained(self, error: RemoteProtocolError) -> RemoteProtocolError:
        """With the end of stderr, where a program that fails to start usually says why."""
        said = (await self.child.last_words(0.2)).strip()
        if said and error.hint is None:
            error.hint = f"its last words: {said[-500:]}"
        return error

    async def _exited(self) -> TreadleError:
        try:
            async with within(self.timing.exit_grace):
                code: int | None = await self.child.wait()
        except (TimeoutError, LocalError):
            code = self.child.exit_code
        said = await self.child.last_words()
        if code is None and not self.child.tree.ended:
            return PeerClosed(f"{self.name} closed its output without a final; its last words: {said.strip()[-500:]}")
        return PeerExited(self.name, code, said)

    async def run(self, order: WorkOrder, run_id: str) -> AsyncGenerator[Sequence[AnyAgentEvent], None]:
        """Give it the order and iterate over what happens, in batches; afterwards `final` is there.

        Everything that can end a run otherwise is raised: RemoteProtocolError, PeerFatal, PeerExited, PeerStalled, and
        what `abort` was given.
        """
        self.final = None
        self._live = Liveness(self.timing, time.monotonic())
        watch = asyncio.create_task(self._watch(), name=f"liveness of {self.name}")
        try:
            with contextlib.suppress(PeerClosed):  # then it has exited, or will: that is told below
                await self.link.send(Run(id=run_id, work_order=order))
            messages: Sequence[Message | RemoteProtocolError] = self._early
            while True:
                events = self._take(messages)
                if events:
                    yield events
                if self._failure is not None:
                    raise self._failure
                if self.final is not None:
                    return
                messages = await self._next()
                self._live.heard(time.monotonic())
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _next(self) -> Sequence[Message | RemoteProtocolError]:
        """The next lines it says; raises when there will be none."""
        messages = await self._lines()
        if self._failure is not None:
            raise self._failure
        if messages is None:
            raise await self._exited()
        return messages

    async def _lines(self) -> Sequence[Message | RemoteProtocolError] | None:
        try:
            async with asyncio.timeout(LAST_BYTES if self._gone else None) as self._limit:
                return await anext(self._batches, None)
        except TimeoutError:
            return None
        except RemoteProtocolError as error:
            # It ended inside a line. How it ended says more than the line that it did not finish.
            self.notes.append(Note(where="output", problem=error.message, value=error.details))
            return None
        finally:
            self._limit = None

    def _take(self, messages: Sequence[Message | RemoteProtocolError]) -> Sequence[AnyAgentEvent]:
        """The events among these. A `final` ends it: what a sidecar says after that is not listened to."""
        events: list[AnyAgentEvent] = [message.event for message in messages if type(message) is Event]
        if len(events) == len(messages):
            return events
        events.clear()
        for message in messages:
            if type(message) is Event:
                events.append(message.event)
            elif self._ends(message):
                break
        return events

    def _ends(self, message: Message | RemoteProtocolError) -> bool:
        """Take note of what is no event, and say whether it is the last that counts."""
        match message:
            case Final():
                self.final = message
                return True
            case Fatal():
                code = None if message.error_code is msgspec.UNSET else message.error_code
                self._failure = PeerFatal(message.error, details={"error_code": code})
            case RemoteProtocolError():
                self._failure = message
            case Pong():
                if not self._live.ponged(message.seq):
                    self.notes.append(Note(where="pong", problem="nobody asked for it", value=message.seq))
            case Hello():
                self.notes.append(Note(where="hello", problem="said again"))
            case Unknown():
                pass  # noted by the wire
        return self._failure is not None

    async def _watch(self) -> None:
        """Ping, look, and give up on a sidecar that has stalled."""
        seq = 0
        step = min(self.timing.ping_every, self.timing.pong_within, self.timing.quiet / 4, LOOK_EVERY)
        next_ping = time.monotonic() + self.timing.ping_every
        while True:
            await asyncio.sleep(step)
            now = time.monotonic()
            self._look(now)
            if now >= next_ping:
                seq, next_ping = seq + 1, now + self.timing.ping_every
                with contextlib.suppress(PeerClosed):
                    await self.link.send(Ping(seq=seq))
                    self._live.pinged(seq, now)
            if reason := self._live.stalled(time.monotonic()):
                self.abort(PeerStalled(f"{self.name} has stalled: {reason}"))
                return

    def _look(self, now: float) -> None:
        processes = self.child.tree.processes()
        self._live.used_cpu(sum(process.cpu for process in processes), now)
        for process in processes:
            if len(self.commands_seen) < 200 and (words := table.command_line(process.pid)):
                self.commands_seen[" ".join(words)[:500]] = None

    async def cancel(self, reason: str) -> None:
        """Ask it to stop. If it has not said `final` or `fatal` within the grace, the run is aborted."""
        if self._cancelled or self.final is not None:
            return
        self._cancelled = True
        if not self.wire.runs:
            self.abort(Cancelled(f"{self.name} was not ready yet"))
            return
        self._timers.add(asyncio.create_task(self._after_grace()))
        with contextlib.suppress(PeerClosed, PeerStalled):
            await self.link.send(Cancel(ref_id=self.wire.runs[0], reason=reason))

    async def _after_grace(self) -> None:
        await asyncio.sleep(self.timing.cancel_grace)
        self.abort(Cancelled(f"{self.name} did not stop within {self.timing.cancel_grace:g} s"))

    def abort(self, error: TreadleError) -> None:
        """End the run under way with this error, whatever the sidecar does."""
        if self._failure is None:
            self._failure = error
        self.child.stdio.close()

    async def close(self) -> None:
        """End it: give one that is done a moment to exit by itself, then stop all of its tree."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        await asyncio.gather(*self._timers, return_exceptions=True)
        self.child.stdio.close_write()
        try:
            if self.final is not None:
                with contextlib.suppress(TimeoutError, LocalError):
                    async with within(self.timing.exit_grace):
                        await self.child.wait()
            await self.child.stop(grace=1.0)
        finally:
            await self._batches.aclose()
            self.child.close()
