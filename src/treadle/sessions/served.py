"""A turn that is served to someone: the one follower below the doors, the library, the chat and `run_turn`.

It reads losslessly, and no faster than its events are taken, so a slow client slows the agent down. Nothing is missed:
reading begins before the prompt is given, and goes on where the turn before it stopped if `after` says so. Who leaves
before the end has interrupted the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, TypeAlias

from treadle.errors import NotFound
from treadle.events import Answered, AnyEvent, Asked, TurnEnded, TurnStarted, Warned
from treadle.io.tasks import end_tasks
from treadle.session import Answer, CommandResult, Prompt, Session, TurnId
from treadle.sessions.totals import TurnTotals

Ask: TypeAlias = Callable[[Asked], Awaitable[Answer | None]]
"""Puts a question to the client; None when someone else answers it. Cancelled when it is settled otherwise."""


class ServedTurn:
    """`async with` it, `prompt` or `command` once, then take its events, which end with its TurnEnded; warnings that
    belong to no turn are among them. Who does neither follows the turn that begins next."""

    def __init__(
        self,
        session: Session,
        *,
        after: int = -1,
        ask: Ask | None = None,
        left: str = "the client stopped listening",
        beside: bool = False,
        totals: TurnTotals | None = None,
    ) -> None:
        """With `beside`, all that belongs to no turn is among its events, such as what background tasks report; it is
        read until `leave`. `totals` go on from there, for several turns that are one run."""
        self.session = session
        self.id: TurnId = ""
        self.seen = max(after, 0)
        """The number of the last event that was taken."""
        self.questions: dict[str, Asked] = {}
        """Those that are open, the oldest first."""
        self.totals = TurnTotals() if totals is None else totals
        self.ended: TurnEnded | None = None
        self._ask = ask
        self._left = left
        self._beside = beside
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._next: list[AnyEvent] = []
        """Those that were read and not taken, the newest first."""
        self._starting = False
        self._early: list[AnyEvent] = []
        """Of turns, from before we know which one is ours: a command can run one to its end."""
        self._reader = session.events(after=after)

    async def __aenter__(self) -> ServedTurn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def leave(self) -> None:
        """Stop reading without ending the turn."""
        self._reader.close()

    async def close(self) -> None:
        self.leave()
        try:
            await self.interrupt(self._left)
        finally:
            await end_tasks(*self._asking.values())

    async def prompt(self, prompt: Prompt) -> TurnId:
        self._starting = True
        try:
            self.adopt(await self.session.prompt(prompt))
        except BaseException:
            self.leave()  # the session must not wait for who will not read
            raise
        return self.id

    async def command(self, name: str, args: str) -> CommandResult | None:
        """Its turn is followed, if it starts one. Who takes events meanwhile does so by `batch` with `until`."""
        self._starting = True
        result = await self.session.command(name, args)
        if result is not None and result.turn is not None:
            self.adopt(result.turn)
        return result

    def adopt(self, turn: TurnId) -> None:
        """Follow this one, which someone has started."""
        self.id = turn
        self._next, self._early = [*self._next, *self._early[::-1]], []

    # What happens

    def __aiter__(self) -> ServedTurn:
        return self

    async def __anext__(self) -> AnyEvent:
        """Its events one by one: what else this object says is as of that event."""
        while self.ended is None:
            while self._next:
                if self._take(event := self._next.pop()):
                    return event
            found = await self._reader.batch()
            self._next[:0] = found[::-1]  # before those that were early: a turn was adopted meanwhile
            if not self._next:
                break
        raise StopAsyncIteration

    async def batch(self, until: asyncio.Future[Any] | None = None) -> list[AnyEvent]:
        """Those that are there now, at least one; none after its TurnEnded, when the session has closed, and when
        `until` is done first. Cheaper per event."""
        while self.ended is None:
            if taken := self.ready():
                return taken
            found = await (self._reader.batch() if until is None else self._batch_until(until))
            self._next[:0] = found[::-1]
            if not self._next:
                break
        return []

    async def _batch_until(self, until: asyncio.Future[Any]) -> list[AnyEvent]:
        reading = asyncio.ensure_future(self._reader.batch())
        try:
            await asyncio.wait([reading, until], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(reading)  # which takes nothing when it is ended while it waits
        return [] if reading.cancelled() else reading.result()

    def ready(self) -> list[AnyEvent]:
        """Those that are there now, without waiting; after the end, what belongs to no turn."""
        found, self._next = [*self._next[::-1], *self._reader.ready()], []
        return [event for event in found if self._take(event)]

    def _take(self, event: AnyEvent) -> bool:
        if self.ended is not None:
            return self._beside and not event.turn
        if event.turn and not self.id:
            if self._starting:
                self._early.append(event)
            elif type(event) is TurnStarted:
                self.id = event.turn
        self.seen = max(event.seq or 0, self.seen)
        if not event.turn or event.turn != self.id:
            return not event.turn and self._without_turn(event)
        self.totals.add(event)
        if type(event) is Asked:
            self.questions[event.request] = event
            if self._ask is not None:
                self._asking[event.request] = asyncio.create_task(self._put(self._ask, event))
        elif type(event) is Answered:
            # One that we have answered is no longer among them, and who asked it may have more to do.
            if self.questions.pop(event.request, None) and (asking := self._asking.pop(event.request, None)):
                asking.cancel()
        elif type(event) is TurnEnded:
            self.ended = event
            self.questions.clear()
            if not self._beside:
                self.leave()
        return True

    def _without_turn(self, event: AnyEvent) -> bool:
        if self._beside:
            self.totals.add(event)
        return self._beside or type(event) is Warned and event.code != "gap"

    async def _put(self, ask: Ask, asked: Asked) -> None:
        if (answer := await ask(asked)) is not None:
            await self.answer(asked.request, answer)

    # What the client does

    async def answer(self, request: str, answer: Answer) -> bool:
        """False when it is no longer open: it was answered, or its time has run out, and an event says which."""
        self.questions.pop(request, None)
        try:
            await self.session.answer(request, answer)
        except NotFound:
            return False
        return True

    async def steer(self, text: str) -> bool:
        return bool(self.id) and self.ended is None and await self.session.steer(self.id, text)

    async def interrupt(self, reason: str) -> None:
        if self.id and self.ended is None:
            await self.session.interrupt(self.id, reason)


async def run_turn(session: Session, text: str, **more: Any) -> AsyncIterator[AnyEvent]:
    """Prompt and iterate: the events of one turn, ending with its TurnEnded. It goes on when you leave."""
    served = ServedTurn(session)
    try:
        await served.prompt(Prompt(text=text, **more))
        async for event in served:
            if event.turn:
                yield event
    finally:
        served.leave()
