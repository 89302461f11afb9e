"""A sidecar process and the conversation with it: hello, orders, pings, cancel, and every way in which it can end.

The control plane and the driver both use this. Whatever goes wrong is one typed error, and when `close` has returned,
no process of the sidecar's tree is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from treadle.errors import (
    Cancelled,
    PeerClosed,
    PeerFatal,
    PeerStalled,
    RemoteProtocolError,
    TreadleError,
    Violation,
)
from treadle.io.peer import Patience, Peer
from treadle.io.process import table
from treadle.io.process.child import Child
from treadle.io.sandbox.proxy import Reaching
from treadle.io.sandbox.start import start
from treadle.io.tasks import end_tasks
from treadle.session import Confinement
from treadle.wire.common.connection import CAP
from treadle.wire.sidecar import connection
from treadle.wire.sidecar.receipts import AnyAgentEvent
from treadle.wire.sidecar.repair import Deviation

# How long a sidecar may take for what, and when it counts as stalled.


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds."""

    handshake: float = 10.0
    ping_every: float = 30.0
    pong_within: float = 10.0
    missed_pongs: int = 3
    quiet: float = 600.0
    """How long a sidecar that never answered a ping may be silent and idle."""
    strict_pong: bool = False
    """Every ping must be answered within `pong_within`, even by a sidecar that never answered one."""
    cancel_grace: float = 5.0
    exit_grace: float = 0.5
    """How long a sidecar that is done may take to exit by itself."""


class Liveness:
    """Judges from lines, answers and CPU time whether a sidecar still lives. Pure: the time is passed in."""

    def __init__(self, timing: Timing, now: float) -> None:
        self.timing = timing
        self.active = now
        """When it last said anything or used CPU."""
        self.answers = False
        self.open: dict[int, float] = {}
        """Unanswered pings, and when they were sent."""
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
        """Why it counts as stalled, or None."""
        late = [sent for sent in self.open.values() if now - sent > self.timing.pong_within]
        # A sidecar that talks is alive, whether or not it answers pings.
        missed = sum(1 for sent in late if sent >= self._heard)
        if self.timing.strict_pong and late:
            return f"a ping was not answered within {self.timing.pong_within:g} s"
        if self.answers and missed >= self.timing.missed_pongs:
            return f"it used to answer pings, and {missed} in a row are unanswered"
        if not self.answers and now - self.active > self.timing.quiet:
            return f"no line and no CPU time was seen for {self.timing.quiet:g} s"
        return None


ENVIRONMENT = ("ABP_*", "KIMI_*", "COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "TREADLE_*")
"""Variables that real sidecars read, besides what every agent gets."""
LOOK_EVERY = 2.0
"""Seconds between looks at the processes of a sidecar."""


class SidecarPeer(Peer[connection.Message | RemoteProtocolError, connection.Message]):
    CLOSED = PeerClosed

    def __init__(self, child: Child, name: str, timing: Timing, cap: int) -> None:
        self.wire = connection.Connection("host", cap=cap)
        patience = Patience(
            handshake=timing.handshake, cancel=timing.cancel_grace, shutdown=timing.exit_grace, grace=1.0
        )
        super().__init__(child, self.wire, name=name, patience=patience)
        self.timing = timing
        self.hello: connection.SidecarHello | None = None
        self.final: connection.Final | None = None
        self.commands_seen: dict[str, None] = {}
        """Command lines seen in its process tree, as far as an occasional look finds them."""
        self._live = Liveness(timing, time.monotonic())
        self._cancelling: asyncio.Task[None] | None = None

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
        reaching: Reaching | None = None,
    ) -> SidecarPeer:
        """Start it. Call `await_hello` next, and `close` at the end in any case."""
        return cls(await start(confinement, argv, env=env, cwd=cwd, stdin="pipe", reaching=reaching), name, timing, cap)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def notes(self) -> list[Deviation]:
        return self.wire.notes

    async def await_hello(self) -> connection.SidecarHello:
        """Its hello, which must be its first line, in time, and of a version that fits ours."""
        async with self.handshake("sent no hello", hint="does it write its hello at once, and flush it?"):
            first = (await self.hear()).popleft()
            if isinstance(first, RemoteProtocolError):
                raise await self._explained(first)
            if not isinstance(first, connection.SidecarHello):
                raise Violation(f"{self.name} did not send hello first")
        self.hello = first
        return first

    async def _explained(self, error: RemoteProtocolError) -> RemoteProtocolError:
        """The error with the end of stderr, where a program that fails to start usually says why."""
        words = (await self.child.last_words(0.2)).strip()
        if words and error.hint is None:
            error.hint = f"its last words: {words[-500:]}"
        return error

    async def parted(self) -> TreadleError:
        torn, self.torn = self.torn, None
        if torn is not None:
            self.notes.append(Deviation(where="output", problem=torn.message, value=torn.details))
        return await super().parted()

    async def run(self, order: connection.WorkOrder, run_id: str) -> AsyncGenerator[Sequence[AnyAgentEvent], None]:
        """Send the order and yield what happens, in batches; afterwards `final` is set.

        Everything that can end a run otherwise is raised: RemoteProtocolError, PeerFatal, PeerExited, PeerStalled, and
        what `abort` was given.
        """
        self.final = None
        self._live = Liveness(self.timing, time.monotonic())
        watch = asyncio.create_task(self._watch(), name=f"liveness of {self.name}")
        try:
            with contextlib.suppress(PeerClosed):  # it has exited or will: that is reported below
                await self.link.send(connection.Run(id=run_id, work_order=order))
            while self.final is None:
                heard = await self.hear()
                self._live.heard(time.monotonic())
                events = self._take(tuple(heard))
                heard.clear()
                if events:
                    yield events
                if self.failure is not None:
                    raise self.failure
        finally:
            await end_tasks(watch)

    def _take(self, messages: Sequence[connection.Message | RemoteProtocolError]) -> Sequence[AnyAgentEvent]:
        """The events among these messages. After `final`, nothing more is read."""
        events: list[AnyAgentEvent] = [message.event for message in messages if type(message) is connection.RunEvent]
        if len(events) == len(messages):
            return events
        events.clear()
        for message in messages:
            if type(message) is connection.RunEvent:
                events.append(message.event)
            elif self._ends(message):
                break
        return events

    def _ends(self, message: connection.Message | RemoteProtocolError) -> bool:
        """Handle a message that is not an event. Whether it is the last one that counts."""
        match message:
            case connection.Final():
                self.final = message
                return True
            case connection.Fatal():
                code = None if message.error_code is msgspec.UNSET else message.error_code
                self.failure = PeerFatal(message.error, details={"error_code": code})
            case RemoteProtocolError():
                self.failure = message
            case connection.Pong():
                if not self._live.ponged(message.seq):
                    self.notes.append(Deviation(where="pong", problem="no one asked for it", value=message.seq))
            case connection.SidecarHello():
                self.notes.append(Deviation(where="hello", problem="sent again"))
            case connection.UnknownEnvelope():
                pass  # the wire has noted it
        return self.failure is not None

    async def _watch(self) -> None:
        """Send pings, check the processes, and give up on a sidecar that has stalled."""
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
                    await self.link.send(connection.Ping(seq=seq))
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
        """Ask it to stop. Without `final` or `fatal` within the grace period, the run is aborted."""
        if self._cancelling is not None or self.final is not None:
            return
        if not self.wire.runs:
            self.abort(Cancelled(f"{self.name} was not ready yet"))
            return
        self._cancelling = asyncio.create_task(self._after_grace())
        with contextlib.suppress(PeerClosed, PeerStalled):
            await self.link.send(connection.CancelRun(ref_id=self.wire.runs[0], reason=reason))

    async def _after_grace(self) -> None:
        await asyncio.sleep(self.timing.cancel_grace)
        self.abort(Cancelled(f"{self.name} did not stop within {self.timing.cancel_grace:g} s"))

    async def end(self) -> None:
        if self._cancelling is not None:
            self._cancelling.cancel()
        await super().end()

    async def close(self) -> None:
        """End it: give one that is done a moment to exit by itself, then stop its whole tree."""
        await (self.leave() if self.final is not None else self.end())
