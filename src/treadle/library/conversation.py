"""One turn (`query`, `run`), or a conversation (`open`), with any agent."""

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import msgspec

from treadle.agents import find_agent, takes_programs
from treadle.errors import ConfigError, NotFound
from treadle.events import AnyEvent, Asked, ErrorInfo, FileChanged, Outcome, TurnEnded
from treadle.library.tools import taken
from treadle.policy.rules import parse_rule
from treadle.session import Agent, Answer, OwnProgram, Prompt, Rules, Session, SessionSpec, Use
from treadle.sessions.totals import Totals, TurnSummary, totals

log = logging.getLogger(__name__)

OnAsk: TypeAlias = Callable[[Asked], "Answer | bool | str | None | Awaitable[Answer | bool | str | None]"]
"""Answers a question of the agent: an Answer; True or False; a text (an answer, or the reason for a no); None is no."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    text: str
    outcome: Outcome | None
    usage: Totals
    changes: tuple[FileChanged, ...]
    session_id: str
    error: ErrorInfo | None = None
    summary: TurnSummary

    @property
    def ok(self) -> bool:
        return self.outcome == "completed"

    @property
    def cost(self) -> float | None:
        """The cost in US dollars; None when a price is unknown."""
        return self.usage.cost_usd


class Conversation:
    """An open session. `turn` gives the events of one turn, `say` its result."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._turn: str | None = None

    @property
    def id(self) -> str:
        return self.session.id

    async def turn(self, prompt: str) -> AsyncIterator[AnyEvent]:
        """The events of one turn, ending with its TurnEnded. Leaving the loop early interrupts the turn."""
        reader = self.session.events(after=-1)
        turn, ended = "", False
        try:
            self._turn = turn = await self.session.prompt(Prompt(text=prompt))
            async for event in reader:
                if event.turn == turn:
                    ended = isinstance(event, TurnEnded)
                    yield event
                    if ended:
                        return
        finally:
            reader.close()
            self._turn = None
            if turn and not ended:
                await self.session.interrupt(turn, "the program stopped listening")

    async def say(self, prompt: str) -> Result:
        return _result([event async for event in self.turn(prompt)], self.session.id)

    async def steer(self, text: str) -> bool:
        """Send more text to the running turn; False when none is running or it is too late."""
        return await self.session.steer(self._turn, text) if self._turn else False


@asynccontextmanager
async def opened(
    *,
    agent: str | Agent = "native",
    cwd: str | os.PathLike[str] = ".",
    tools: Any = None,
    on_ask: OnAsk | None = None,
    pre_tool: Callable[[Use], Any] | None = None,
    post_tool: Callable[[Use, str, bool], Any] | None = None,
    stop: Callable[[str, str], Any] | None = None,
    **options: Any,
) -> AsyncIterator[Conversation]:
    """A conversation, closed when the `async with` is left.

    `tools`: names of the agent's tools to offer, functions made with `@treadle.tool`, or both. `on_ask` answers
    permissions and questions; without it, what would be asked is refused. `options` are the fields of SessionSpec:
    model, mode, rules, limits, system_prompt, append_system_prompt, resume, fork, session_id, name, persist, env ...
    """
    names, own = taken(tools)
    program = OwnProgram(tools=own, pre_tool=_async(pre_tool), post_tool=_async(post_tool), stop=_async(stop))
    spec = _spec(cwd=os.path.abspath(cwd), tools=names, program=program, answers=on_ask is not None, **options)
    found = find_agent(agent) if isinstance(agent, str) else agent
    if program != OwnProgram() and not (takes_programs(agent) if isinstance(agent, str) else agent.name == "native"):
        raise ConfigError(
            f"the agent {found.name!r} cannot use tools and hooks of a program", hint="use agent='native' or 'claude'"
        )
    session = await found.open(spec)
    answering = asyncio.create_task(_answer(session, on_ask)) if on_ask is not None else None
    try:
        yield Conversation(session)
    finally:
        if answering is not None:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        await session.close()


open = opened
"""The public name of `opened`."""


async def query(prompt: str, **options: Any) -> AsyncIterator[AnyEvent]:
    """The events of one turn in a session of its own; the options are those of `open`."""
    async with opened(**options) as conversation:
        async for event in conversation.turn(prompt):
            yield event


def run(prompt: str, **options: Any) -> Result:
    """One turn from a script or a notebook, without `async`; the options are those of `open`."""

    async def once() -> Result:
        async with opened(**options) as conversation:
            return await conversation.say(prompt)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(once())
    return _in_a_thread(once)


def _in_a_thread(once: Callable[[], Awaitable[Result]]) -> Result:
    """Where an event loop already runs, as in a notebook, another one has to run in a thread."""
    box: list[Result | BaseException] = []

    def work() -> None:
        try:
            box.append(asyncio.run(once()))  # type: ignore[arg-type]
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def _spec(*, program: OwnProgram, **options: Any) -> SessionSpec:
    rules = options.get("rules", Rules())
    if isinstance(rules, Rules):
        for rule in (*rules.allow, *rules.ask, *rules.deny):
            parse_rule(rule)
    try:
        return SessionSpec.of(program=program, **options)
    except TypeError as error:
        raise ConfigError(
            f"there is no such option: {error}", hint="the options are the fields of SessionSpec"
        ) from None


async def _answer(session: Session, on_ask: OnAsk) -> None:
    async for event in session.events(after=-1):
        if isinstance(event, Asked):
            try:
                said = on_ask(event)
                answer = _as_answer(event, await said if inspect.isawaitable(said) else said)
            except Exception as error:
                log.exception("on_ask failed")
                answer = Answer(decision="deny", text=f"nobody could answer: {error}", by="program")
            with suppress(NotFound):  # the deadline passed first
                await session.answer(event.request, answer)


def _as_answer(asked: Asked, said: Answer | bool | str | None) -> Answer:
    if isinstance(said, Answer):
        return said
    if isinstance(said, str):
        return Answer(decision="allow" if asked.kind == "question" else "deny", text=said, by="program")
    return Answer(decision="allow" if said else "deny", by="program")


def _result(events: list[AnyEvent], session_id: str) -> Result:
    summary = totals(events)
    return Result(
        text=summary.text,
        outcome=summary.outcome,
        usage=summary.usage,
        changes=summary.files,
        session_id=session_id,
        error=summary.error,
        summary=summary,
    )


def _async(function: Callable[..., Any] | None) -> Callable[..., Awaitable[Any]] | None:
    if function is None:
        return None

    async def call(*given: Any) -> Any:
        said = function(*given)
        return await said if inspect.isawaitable(said) else said

    return call
