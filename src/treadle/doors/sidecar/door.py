"""Any agent as a sidecar: hello, then one order after the other, each with its events and its receipt.

The end of input means that no more orders come, not that the current one must stop: real control planes close their
end right after `run`. They also kill us as soon as they read `final`, so before that line the session is closed, its
processes are gone, and everything that must last is on disk.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

from treadle.doors.outbox import STALLED_SECONDS
from treadle.errors import PeerClosed, RemoteProtocolError, TreadleError, Unsupported
from treadle.io.link import Link
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks
from treadle.receipts.work import AgentWork, identity, manifest
from treadle.session import Agent, AgentInfo
from treadle.sessions.session import error_info
from treadle.wire.sidecar.connection import (
    CancelRun,
    Connection,
    Fatal,
    Final,
    Message,
    Ping,
    Pong,
    Run,
    RunEvent,
    SidecarHello,
    unmet,
)
from treadle.wire.sidecar.events import contract_code
from treadle.wire.sidecar.receipts import CONTRACT

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
WAITING_ORDERS = 100
REFUSED_ORDERS = 10_000
"""Of further orders only the ids are kept, to be answered in turn; at this many, reading pauses."""


class Sidecar:
    def __init__(self, agent: Agent, stream: Stream, *, warn: Callable[[str], None]) -> None:
        self._agent = agent
        self._warn = warn
        self._wire = Connection("sidecar")
        self._link: Link[Message | RemoteProtocolError, Message] = Link(
            stream, self._wire, write_timeout=STALLED_SECONDS
        )
        self._stream = stream
        self._waiting: deque[Run | str] = deque()
        """Orders, and the ids of those that are refused because too many wait."""
        self._room = asyncio.Event()
        self._cancelled: dict[str, str] = {}
        self._arrived = asyncio.Event()
        self._ended = False
        self._current: RunningOrder | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Serve until there are no more orders. Returns the exit code: 0, or 1 when the host left in the middle."""
        serving = asyncio.create_task(self._serve(), name="sidecar")
        # Without this, a host that dies during a long silence would be noticed only at the next event.
        gone = asyncio.create_task(self._stream.abandoned(), name="sidecar's host")
        try:
            await asyncio.wait([serving, gone], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                return serving.result()
            self._warn("no one reads our output any more")
            return 1
        finally:
            await end_tasks(serving, gone)

    async def _serve(self) -> int:
        info = await self._probe()
        reading: asyncio.Task[None] | None = None
        try:
            await self._link.send(
                SidecarHello(
                    contract_version=CONTRACT, backend=identity(info), capabilities=manifest(info), mode="mapped"
                )
            )
            reading = asyncio.create_task(self._read(), name="sidecar reader")
            while (order := await self._next()) is not None:
                if isinstance(order, str):
                    text = f"{WAITING_ORDERS} orders were waiting already"
                    await self._link.send(Fatal(ref_id=order, error=text, error_code="rate_limit_exceeded"))
                else:
                    await self._carry_out(order, info)
            return 0
        except PeerClosed:
            self._warn("the host went away")
            return 1
        finally:
            if self._current is not None:
                await self._current.abandon()
            await end_tasks(reading)

    async def _carry_out(self, order: Run, info: AgentInfo) -> None:
        self._current = RunningOrder(order, self._agent, info, self._link)
        if order.id in self._cancelled:
            await self._current.cancel(self._cancelled[order.id])
        await self._current.carry_out()
        if self._stopping is not None:
            await self._stopping
        self._current = self._stopping = None

    async def _probe(self) -> AgentInfo:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await self._agent.probe()
        except (TimeoutError, TreadleError) as error:
            self._warn(f"what {self._agent.name} can do is not known: {str(error) or 'it does not say'}")
            return AgentInfo(name=self._agent.name)

    async def _next(self) -> Run | str | None:
        while not self._waiting:
            if self._ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        self._room.set()
        return self._waiting.popleft()

    # What the host says

    async def _read(self) -> None:
        try:
            async for message in self._link:
                await self._heard(message)
        except RemoteProtocolError as error:
            self._warn(f"the input ended inside a line: {error}")
        except PeerClosed:
            pass  # the one who writes events will find out as well
        finally:
            self._ended = True
            self._arrived.set()

    async def _heard(self, message: Message | RemoteProtocolError) -> None:
        match message:
            case Run():
                await self._take(message)
            case CancelRun():
                await self._cancel(message)
            case Ping():
                await self._link.send(Pong(seq=message.seq))
            case RemoteProtocolError():
                await self._refuse(message)

    async def _take(self, message: Run) -> None:
        """Every order gets an answer, in its turn; one too many gets a refusal."""
        while len(self._waiting) >= REFUSED_ORDERS:
            self._room.clear()
            await self._room.wait()
        full = len(self._waiting) >= WAITING_ORDERS
        if full:
            self._warn(f"{WAITING_ORDERS} orders are waiting already; {message.id} is refused")
        self._waiting.append(message.id if full else message)
        self._arrived.set()

    async def _cancel(self, message: CancelRun) -> None:
        reason = message.reason or "cancelled by the host"
        self._cancelled[message.ref_id] = reason
        if self._current is not None and self._current.run.id == message.ref_id:
            # Not awaited: pings are still answered while the agent stops.
            self._stopping = asyncio.create_task(self._current.cancel(reason), name="sidecar cancel")

    async def _refuse(self, error: RemoteProtocolError) -> None:
        """A bad line is answered when nothing runs; during a run, an answer would end that run at the host."""
        self._warn(f"a line was not understood: {error}")
        if self._wire.state == "idle":
            details = error.details if isinstance(error.details, dict) else {}
            code = contract_code(error.code, {"error_code": "contract_schema_violation"} if "id" in details else None)
            await self._link.send(Fatal(ref_id=details.get("id"), error=str(error), error_code=code or "internal"))


class RunningOrder:
    """One order being carried out for the host."""

    def __init__(
        self, run: Run, agent: Agent, info: AgentInfo, link: Link[Message | RemoteProtocolError, Message]
    ) -> None:
        self.run = run
        self._info = info
        self._link = link
        self._work = AgentWork(run.id, run.work_order, agent, info)

    async def carry_out(self) -> None:
        try:
            missing = unmet(self.run.work_order.requirements, manifest(self._info))
            if missing:
                raise Unsupported(f"{self._info.name} lacks what the order requires: {'; '.join(missing)}")
            async with contextlib.aclosing(self._work.events()) as batches:
                async for events in batches:
                    await self._link.send(*(RunEvent(ref_id=self.run.id, event=event) for event in events))
        except PeerClosed:
            raise
        except Exception as error:
            if not isinstance(error, TreadleError):
                log.exception("an order failed with an unexpected error", extra={"run": self.run.id})
            await self.abandon()
            info = error_info(error)
            code = contract_code(info.code, info.details)
            await self._link.send(Fatal(ref_id=self.run.id, error=info.message, error_code=code or "internal"))
            return
        await self._link.send(Final(ref_id=self.run.id, receipt=self._work.receipt()))

    async def cancel(self, reason: str) -> None:
        await self._work.cancel(reason)

    async def abandon(self) -> None:
        await self._work.close()
