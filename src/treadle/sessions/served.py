"""A turn that is served to someone: the one follower below the doors, the library and the chat.

It reads losslessly, and no faster than its events are taken, so a slow client slows the agent down. Nothing is missed:
reading begins before the prompt is given, and goes on where the turn before it stopped if `after` says so. Who leaves
before the end has interrupted the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeAlias

from treadle.errors import NotFound
from treadle.events import Answered, AnyEvent, Asked, TurnEnded, Warned
from treadle.io.tasks import end_tasks
from treadle.session import Answer, Prompt, Session, TurnId
from treadle.sessions.totals import TurnTotals

Ask: TypeAlias = Callable[[Asked], Awaitable[Answer | None]]
"""Puts a question to the client; None when someone else answers it. Cancelled when it is settled otherwise."""


class ServedTurn:
    """`async with` it, `prompt` once, then take its events, which end with its TurnEnded; warnings that belong to no
    turn are among them. `adopt` is for a turn that a command has started."""

    def __init__(
        self,
        session: Session,
        *,
        after: int = -1,
        ask: Ask | None = None,
        left: str = "the client stopped listening",
        beside: bool = False,
    ) -> None:
        """With `beside`, all that belongs to no turn is among its events, such as what background tasks report."""
        self.session = session
        self.id: TurnId = ""
        self.seen = max(after, 0)
        """The number of the last event that was taken."""
        self.questions: dict[str, Asked] = {}
        """Those that are open, the oldest first."""
        self.totals = TurnTotals()
        self.ended: TurnEnded | None = None
        self._ask = ask
        self._left = left
        self._beside = beside
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._next: list[AnyEvent] = []
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
        try:
            self.id = await self.session.prompt(prompt)
        except BaseException:
            self.leave()  # the session must not wait for who will not read
            raise
        return self.id

    def adopt(self, turn: TurnId) -> None:
        self.id = turn

    # What happens

    def __aiter__(self) -> ServedTurn:
        return self

    async def __anext__(self) -> AnyEvent:
        """Its events one by one: what else this object says is as of that event."""
        while self.ended is None:
            while self._next:
                if self._take(event := self._next.pop()):
                    return event
            self._next = (await self._reader.batch())[::-1]
            if not self._next:
                break
        raise StopAsyncIteration

    async def batch(self) -> list[AnyEvent]:
        """Those that are there now, at least one; none after its TurnEnded, and when the session has closed. Cheaper
        per event."""
        while self.ended is None and (found := await self._reader.batch()):
            if taken := [event for event in found if self._take(event)]:
                return taken
        return []

    def _take(self, event: AnyEvent) -> bool:
        if self.ended is not None:
            return False
        self.seen = event.seq or self.seen
        if event.turn != self.id:
            return not event.turn and (self._beside or type(event) is Warned and event.code != "gap")
        self.totals.add(event)
        if type(event) is Asked:
            self.questions[event.request] = event
            if self._ask is not None:
                self._asking[event.request] = asyncio.create_task(self._put(self._ask, event))
        elif type(event) is Answered:
            self.questions.pop(event.request, None)
            if (asking := self._asking.pop(event.request, None)) is not None:
                asking.cancel()
        elif type(event) is TurnEnded:
            self.ended = event
            self.questions.clear()
            self.leave()
        return True

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
