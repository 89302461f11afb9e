"""A real session that plays a script, which says what each turn emits, asks, waits for and fails with.

    agent = ScriptedAgent([TextDelta(text="hello")], [ProviderError("down")])

Each list is one turn, played in order; a turn beyond the script echoes its prompt. A step is an event to emit, an Asked
to ask and wait for, an asyncio.Event to wait for, an exception to raise, or an async function of session and turn.
Such an agent can do everything but what `cannot` names.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from treadle.events import Asked, Event, Message, TextDelta, TurnEnded
from treadle.session import AgentInfo, SessionSpec
from treadle.sessions.abilities import ABILITIES
from treadle.sessions.session import BaseSession, Turn, new_id

Step: TypeAlias = "Event | asyncio.Event | BaseException | Callable[[ScriptedSession, Turn], Awaitable[None]]"


class ScriptedSession(BaseSession):
    def __init__(self, spec: SessionSpec, turns: list[Sequence[Step]], cannot: Sequence[str] = ()) -> None:
        able = {name: "unsupported" if name in cannot else "native" for name in ABILITIES}
        info = AgentInfo(name="scripted", tools=spec.tools.offered or (), capabilities=cast(Any, able))
        super().__init__(spec.start.id or new_id("session"), info, answers=spec.answers)
        self.spec = spec
        self.steered: list[str] = []
        self.closed = False
        self._turns = turns

    async def _turn(self, turn: Turn) -> TurnEnded:
        steps: Sequence[Step] = [TextDelta(text=turn.prompt.text)]
        if self._turns:
            steps = self._turns.pop(0)
        turn.iterations += 1
        try:
            for step in steps:
                await self._play(step, turn)
        finally:
            self.steered += turn.steering
        return turn.ending("completed", stop_reason="stop")

    async def _steer(self, turn: Turn, text: str) -> bool:
        return turn.steer(text)

    async def _play(self, step: Step, turn: Turn) -> None:
        match step:
            case Asked():
                await self.ask(step)
            case Event():
                self.emit(msgspec.structs.replace(step))  # a step may be played again
                if isinstance(step, TextDelta | Message):
                    turn.text += step.text
                await self.room()
            case asyncio.Event():
                await step.wait()
            case BaseException():
                raise step
            case _:
                await step(self, turn)

    async def _close(self) -> None:
        self.closed = True


class ScriptedAgent:
    name = "scripted"

    def __init__(self, *turns: Sequence[Step], refuses: Exception | None = None, cannot: Sequence[str] = ()) -> None:
        self._turns = list(turns)
        self._cannot = cannot
        self._refuses = refuses
        self.sessions: list[ScriptedSession] = []

    async def probe(self) -> AgentInfo:
        return AgentInfo(name=self.name)

    async def open(self, spec: SessionSpec) -> ScriptedSession:
        if self._refuses is not None:
            raise self._refuses
        session = ScriptedSession(spec, self._turns, self._cannot)
        self.sessions.append(session)
        return session
