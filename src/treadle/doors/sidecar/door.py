"""Any agent as a sidecar: hello, then one order after the other, each with its events and its receipt.

The end of input means that no more orders come, not that the one under way is to stop: a real control plane closes its
end right after `run`. And it kills us the moment it reads `final`, so before that line the session is closed, its
processes are gone, and all that is to last is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from treadle.doors.outbox import STALLED_SECONDS
from treadle.doors.sidecar.order import identity, manifest, passthrough, prompt_of, session_spec
from treadle.errors import PeerClosed, RemoteProtocolError, TreadleError, Unsupported
from treadle.events import ErrorInfo, TurnEnded, Usage
from treadle.io.link import Link
from treadle.io.streams import Stream
from treadle.receipts.trace import Trace
from treadle.session import Agent, AgentInfo, Prompt, Session
from treadle.sessions.session import error_info
from treadle.sessions.totals import Fold, Totals
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
    unmet,
)
from treadle.wire.sidecar.events import Outgoing, contract_code, error_event
from treadle.wire.sidecar.receipts import (
    CONTRACT,
    AnyAgentEvent,
    ErrorEvent,
    Outcome,
    Receipt,
    ReceiptMeta,
    RunCompleted,
    Verification,
    normal_uuid,
    sealed,
    timestamp,
)
from treadle.wire.sidecar.receipts import Usage as UsageTotals

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
WAITING_ORDERS = 100


class Sidecar:
    def __init__(self, agent: Agent, stream: Stream, *, warn: Callable[[str], None]) -> None:
        self._agent = agent
        self._warn = warn
        self._wire = Connection("sidecar")
        self._link: Link[Message | RemoteProtocolError, Message] = Link(
            stream, self._wire, write_timeout=STALLED_SECONDS
        )
        self._waiting: deque[Run] = deque()
        self._cancelled: dict[str, str] = {}
        self._arrived = asyncio.Event()
        self._ended = False
        self._current: Order | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Serve until there are no more orders. The exit code: 0, or 1 when the host went away in the middle."""
        info = await self._probe()
        reading: asyncio.Task[None] | None = None
        try:
            await self._link.send(
                Hello(contract_version=CONTRACT, backend=identity(info), capabilities=manifest(info), mode="mapped")
            )
            reading = asyncio.create_task(self._read(), name="sidecar reader")
            while (order := await self._next()) is not None:
                self._current = Order(order, self._agent, info, self._link)
                if order.id in self._cancelled:
                    await self._current.cancel(self._cancelled[order.id])
                await self._current.carry_out()
                if self._stopping is not None:
                    await self._stopping
                self._current = self._stopping = None
            return 0
        except PeerClosed:
            self._warn("the host went away")
            return 1
        finally:
            if self._current is not None:
                await self._current.abandon()
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _probe(self) -> AgentInfo:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await self._agent.probe()
        except (TimeoutError, TreadleError) as error:
            self._warn(f"what {self._agent.name} can do is not known: {error or 'it does not say'}")
            return AgentInfo(name=self._agent.name)

    async def _next(self) -> Run | None:
        while not self._waiting:
            if self._ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    # What the host says

    async def _read(self) -> None:
        try:
            async for message in self._link:
                await self._heard(message)
        except RemoteProtocolError as error:
            self._warn(f"the input ended inside a line: {error}")
        except PeerClosed:
            pass  # whoever writes events finds out as well
        finally:
            self._ended = True
            self._arrived.set()

    async def _heard(self, message: Message | RemoteProtocolError) -> None:
        match message:
            case Run() if len(self._waiting) < WAITING_ORDERS:
                self._waiting.append(message)
                self._arrived.set()
            case Run():
                self._warn(f"{WAITING_ORDERS} orders are waiting already; {message.id} is not taken")
            case Cancel():
                await self._cancel(message)
            case Ping():
                await self._link.send(Pong(seq=message.seq))
            case RemoteProtocolError():
                await self._refuse(message)

    async def _cancel(self, message: Cancel) -> None:
        reason = message.reason or "cancelled by the host"
        self._cancelled[message.ref_id] = reason
        if self._current is not None and self._current.run.id == message.ref_id:
            # Not waited for: pings go on being answered while the agent stops.
            self._stopping = asyncio.create_task(self._current.cancel(reason), name="sidecar cancel")

    async def _refuse(self, error: RemoteProtocolError) -> None:
        """A bad line is answered when nothing runs; during a run an answer would end that run at the host."""
        self._warn(f"a line was not understood: {error}")
        if self._wire.state == "idle":
            details = error.details if isinstance(error.details, dict) else {}
            code = contract_code(error.code, {"error_code": "contract_schema_violation"} if "id" in details else None)
            await self._link.send(Fatal(ref_id=details.get("id"), error=str(error), error_code=code or "internal"))


class Order:
    """One order on its way."""

    def __init__(
        self, run: Run, agent: Agent, info: AgentInfo, link: Link[Message | RemoteProtocolError, Message]
    ) -> None:
        self.run = run
        self._agent = agent
        self._info = info
        self._link = link
        self._session: Session | None = None
        self._turn: str | None = None
        self._reason: str | None = None
        self._trace = Trace()
        self._fold = Fold()
        self._started = time.time()
        self._outcome: Outcome = "failed"
        self._passthrough = passthrough(run.work_order)
        self._out = Outgoing(run.work_order.workspace.root, passthrough=self._passthrough)

    async def carry_out(self) -> None:
        try:
            missing = unmet(self.run.work_order.requirements, manifest(self._info))
            if missing:
                raise Unsupported(f"the order requires what {self._info.name} does not offer: {'; '.join(missing)}")
            await self._work()
        except PeerClosed:
            raise
        except Exception as error:
            if not isinstance(error, TreadleError):
                log.exception("an order failed in a way nobody foresaw", extra={"run": self.run.id})
            await self.abandon()
            info = error_info(error)
            code = contract_code(info.code, info.details)
            await self._link.send(Fatal(ref_id=self.run.id, error=info.message, error_code=code or "internal"))
            return
        await self._link.send(Final(ref_id=self.run.id, receipt=self._receipt()))

    async def _work(self) -> None:
        order = self.run.work_order
        if self._reason is not None:
            self._outcome = "partial"
            return
        self._session = await self._agent.open(session_spec(order))
        reader = self._session.events(after=-1)
        self._turn = await self._session.prompt(Prompt(text=prompt_of(order)))
        if self._reason is not None:
            await self._session.interrupt(self._turn, self._reason)
        last: list[AnyAgentEvent] = []
        with contextlib.closing(reader):
            async for event in reader:
                if event.turn != self._turn:
                    continue
                self._fold.add(event)
                if isinstance(event, Usage) and event.source == "provider":
                    self._out.spent(_totals(self._fold.summary().usage))
                made = self._out.translate(event)
                if isinstance(event, TurnEnded):
                    last = made
                    break
                await self._say(made)
        # Closed before the host hears that we are done: it may kill us for that.
        await self.abandon()
        ended = self._fold.summary()
        self._outcome = "complete" if ended.outcome == "completed" else "partial"
        if ended.outcome == "failed":
            self._outcome = "failed"
            await self._tell_error(ended.error)
        await self._say(last)

    async def _tell_error(self, error: ErrorInfo | None) -> None:
        """A failed run shows an error; most agents have told theirs already."""
        told = any(isinstance(event, ErrorEvent) for event in self._trace.events("1970-01-01T00:00:00Z"))
        if error is not None and not told:
            await self._say([error_event(error, timestamp(time.time()))])

    async def _say(self, events: list[AnyAgentEvent]) -> None:
        if events:
            self._trace.extend(events)
            await self._link.send(*(Event(ref_id=self.run.id, event=event) for event in events))

    async def cancel(self, reason: str) -> None:
        self._reason = reason
        if self._session is not None and self._turn is not None:
            await self._session.interrupt(self._turn, reason)

    async def abandon(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _receipt(self) -> Receipt:
        finished, summary = time.time(), self._fold.summary()
        usage = summary.usage
        trace = self._trace.events(timestamp(finished))
        if not any(isinstance(event, RunCompleted) for event in trace[-1:]):
            trace.append(RunCompleted(ts=timestamp(finished), message=self._reason or self._outcome))
        return sealed(
            Receipt(
                meta=ReceiptMeta(
                    run_id=as_uuid(self.run.id),
                    work_order_id=as_uuid(self.run.work_order.id),
                    contract_version=CONTRACT,
                    started_at=timestamp(self._started),
                    finished_at=timestamp(finished),
                    duration_ms=max(0, round(finished * 1000) - round(self._started * 1000)),
                ),
                backend=identity(self._info),
                capabilities=manifest(self._info),
                mode="passthrough" if self._passthrough else "mapped",
                usage_raw={
                    "by_model": {
                        model: {**_totals(totals), "estimated": totals.estimated}
                        for model, totals in summary.by_model.items()
                    }
                },
                usage=UsageTotals(**_totals(usage)) if usage.calls and not usage.estimated else UsageTotals(),
                trace=trace,
                artifacts=[],
                verification=Verification(harness_ok=False),
                outcome=self._outcome,
            )
        )


def as_uuid(text: str) -> str:
    """An id that is none, as some hosts send, becomes always the same one that is: receipts need one."""
    try:
        return normal_uuid(text)
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def _totals(usage: Totals) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "request_units": usage.calls,
        "estimated_cost_usd": None if usage.cost_usd is None else round(usage.cost_usd, 9),
    }
