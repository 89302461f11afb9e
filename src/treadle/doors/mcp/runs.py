"""Agents at work for an MCP client. Each run is a session that takes prompts and has an id."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.errors import Busy, NotFound
from treadle.events import Answered, AnyEvent, Asked, TurnEnded
from treadle.session import Agent, Answer, Prompt, Session, SessionSpec
from treadle.sessions.session import new_id
from treadle.sessions.totals import TurnSummary, TurnTotals

Status: TypeAlias = Literal["running", "waiting", "completed", "failed", "interrupted", "limited"]
OPEN = 16
"""How many runs are kept; beyond that, the one that has been idle longest is closed."""
STORED_EVENTS = 2000
"""How many events of each run are kept for `read`."""


class AgentRun:
    """One session. `watchers` see each event of the current turn."""

    def __init__(self, name: str, session: Session, agent: str, cwd: str) -> None:
        self.id = name
        self.session = session
        self.agent = agent
        self.cwd = cwd
        self.turn = ""
        self.status: Status = "running"
        self.questions: dict[str, Asked] = {}
        self.events: list[AnyEvent] = []
        self.watchers: list[Callable[[AnyEvent], None]] = []
        self._totals = TurnTotals()
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def prompt(self, text: str) -> None:
        if self.busy:
            raise Busy(f"the run {self.id} is at work", hint="wait for it with `read`, or `cancel` it")
        reader = self.session.events(after=-1)
        self._totals, self.status = TurnTotals(), "running"
        self.turn = await self.session.prompt(Prompt(text=text))
        self._following = asyncio.create_task(self._follow(reader), name=f"events of {self.id}")

    async def _follow(self, reader: Any) -> None:
        try:
            async for event in reader:
                self._take(event)
                if isinstance(event, TurnEnded) and event.turn == self.turn:
                    return
            self.status = "failed"
        finally:
            reader.close()
            self._tell()

    def _take(self, event: AnyEvent) -> None:
        self.events.append(event)
        del self.events[:-STORED_EVENTS]
        if event.turn == self.turn:
            self._totals.add(event)
        match event:
            case Asked():
                self.questions[event.request] = event
            case Answered():
                self.questions.pop(event.request, None)
            case TurnEnded() if event.turn == self.turn:
                self.questions.clear()
                self.status = event.outcome
        if self.busy:
            self.status = "waiting" if self.questions else "running"
        for watcher in [*self.watchers]:
            watcher(event)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @property
    def busy(self) -> bool:
        return bool(self.turn) and self.status in ("running", "waiting")

    def summary(self) -> TurnSummary:
        return self._totals.summary()

    async def news(self, seconds: float | None) -> None:
        """Wait until something has happened, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def settled(self, seconds: float | None = None, *, questions: bool = True) -> None:
        """Wait until the turn has ended or, with `questions`, until someone must answer something."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while self.busy and not (questions and self.questions):
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                return
            await self.news(left)

    async def close(self) -> None:
        await self.session.close()
        if self._following is not None:
            await asyncio.gather(self._following, return_exceptions=True)


class Runs:
    def __init__(self, find: Callable[[str], Agent], agent: str, base: SessionSpec) -> None:
        self._find = find
        self._agent = agent
        self._base = base
        self._runs: dict[str, AgentRun] = {}

    def __iter__(self) -> Any:
        return iter(self._runs.values())

    def get(self, name: str) -> AgentRun:
        run = self._runs.get(name)
        if run is None:
            known = ", ".join(self._runs) or "none"
            raise NotFound(f"there is no run {name!r}", hint=f"the runs are {known}; `resume` goes on with a session")
        return run

    async def open(self, *, agent: str | None, **changes: Any) -> AgentRun:
        await self._make_room()
        spec = msgspec.structs.replace(self._base, **changes)
        name = agent or self._agent
        session = await self._find(name).open(spec)
        run = AgentRun(new_id("run"), session, name, spec.cwd)
        self._runs[run.id] = run
        return run

    async def _make_room(self) -> None:
        resting = [run for run in self._runs.values() if not run.busy]
        if len(self._runs) < OPEN:
            return
        if not resting:
            raise Busy(f"{OPEN} runs are at work already", hint="wait for one to end, or cancel one")
        del self._runs[resting[0].id]
        await resting[0].close()

    async def close(self) -> None:
        await asyncio.gather(*(run.close() for run in self._runs.values()), return_exceptions=True)


Elicit: TypeAlias = Callable[[Asked], Awaitable[Answer | None]]
"""Puts a question to the person at the client; None when no one can be asked."""


async def ask_while(run: AgentRun, elicit: Elicit) -> None:
    """Pass the run's questions to the person at the client, until cancelled or one cannot be answered this way."""
    while True:
        for request, asked in [*run.questions.items()]:
            answer = await elicit(asked)
            if answer is None:
                return
            with suppress(NotFound):
                await run.session.answer(request, answer)
            run.questions.pop(request, None)
        await run.news(None)
