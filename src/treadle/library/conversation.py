"""One turn (`query`, `run`), or a conversation (`open`), with any agent."""

import asyncio
import inspect
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_type_hints, overload

import msgspec
from msgspec.structs import replace

from treadle.agents import find_agent, takes_programs
from treadle.errors import ConfigError, NotFound, ToolError
from treadle.events import AnyEvent, Asked, ErrorInfo, FileChanged, Outcome, ToolKind
from treadle.io.process.loop import run_async
from treadle.io.tasks import end_tasks
from treadle.policy.rules import parse_rule
from treadle.sandboxed.turns import TurnCheck
from treadle.session import (
    Agent,
    Answer,
    Confinement,
    Guards,
    Instructions,
    Limits,
    Mode,
    OwnProgram,
    OwnTool,
    Prompt,
    Reasoning,
    Rules,
    Session,
    SessionSpec,
    Start,
    Subagent,
    Use,
)
from treadle.sessions.totals import ServedTurn, Totals, TurnSummary, totals
from treadle.verification.ending import CheckedEnding

# The options of `query`, `run` and `open`, typed: a type checker refuses a wrong name and a wrong value.

OnAsk: TypeAlias = Callable[[Asked], "Answer | bool | str | None | Awaitable[Answer | bool | str | None]"]
"""Answers a question of the agent: an Answer; True or False; a text (an answer, or the reason for a no); None is no."""


class SessionOptions(TypedDict, total=False):
    """`docs/reference/python-api.md` explains each; all but the first group are fields of SessionSpec."""

    agent: str | Agent
    cwd: str | os.PathLike[str]
    tools: Sequence[str | OwnTool | Callable[..., Any]] | None
    on_ask: OnAsk | None
    pre_tool: Callable[[Use], Any] | None
    post_tool: Callable[[Use, str, bool], Any] | None
    stop: Callable[[str, str], Any] | None
    verify: bool | str

    model: str | None
    mode: Mode | None
    rules: Rules
    limits: Limits
    env: dict[str, str]
    inherit_env: bool
    looks_freely: bool
    add_dirs: tuple[str, ...]
    answer_seconds: float | None
    guards: Guards
    thinking: Reasoning
    subagents: tuple[Subagent, ...]
    confinement: Confinement
    model_wire: Literal["auto", "gateway", "direct"]
    record: str
    replay: object
    trusted: bool
    routine: tuple[str, ...]
    extra: dict[str, Any]
    instructions: Instructions
    start: Start

    system_prompt: str | None
    append_system_prompt: str | None
    project: bool
    denied_tools: tuple[str, ...]
    resume: str | None
    fork: bool
    session_id: str | None
    name: str | None
    persist: bool


# `@treadle.tool`: a typed function as a tool that the agent can call.

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__treadle_tool__"


@overload
def tool(function: F) -> F: ...
@overload
def tool(*, name: str | None = None, description: str | None = None, kind: ToolKind = "other") -> Callable[[F], F]: ...
def tool(
    function: F | None = None, *, name: str | None = None, description: str | None = None, kind: ToolKind = "other"
) -> F | Callable[[F], F]:
    """Make a function a tool: its annotations are the schema, its docstring is the description.

    It can still be called as a function. A synchronous one runs in a thread. `kind` says what it does, which decides
    when a person is asked: `read` never needs approval, `other` needs it like a command. If it raises an exception, the
    model reads that as a failure.
    """

    def mark(wanted: F) -> F:
        setattr(wanted, MARK, own_tool(wanted, name=name, description=description, kind=kind))
        return wanted

    return mark if function is None else mark(function)


def own_tool(function: Callable[..., Any], *, name: str | None, description: str | None, kind: ToolKind) -> OwnTool:
    called = name or function.__name__
    arguments = _arguments(function, called)
    doc = description or inspect.getdoc(function) or ""
    if not doc:
        raise ConfigError(f"the tool {called!r} has no description", hint="give the function a docstring")

    async def call(given: dict[str, Any]) -> str:
        try:
            args = msgspec.convert(given, arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolError(f"{called}: {error}") from None
        values = {field: getattr(args, field) for field in arguments.__struct_fields__}
        try:
            return _text(await _run(function, values))
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(f"{called} failed: {type(error).__name__}: {error}") from error

    schema = msgspec.json.schema(arguments)
    parameters = schema["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    defs = {key: value for key, value in schema.get("$defs", {}).items() if key != arguments.__name__}
    parameters = {**parameters, "additionalProperties": False, **({"$defs": defs} if defs else {})}
    return OwnTool(name=called, description=doc, parameters=parameters, call=call, kind=kind)


def taken(tools: Any) -> tuple[tuple[str, ...] | None, tuple[OwnTool, ...]]:
    """Splits what was given as `tools` into the names to offer (None: all of ours) and the program's own tools."""
    if tools is None:
        return None, ()
    names = tuple(one for one in tools if isinstance(one, str))
    others = [one for one in tools if not isinstance(one, str)]
    own = [getattr(one, MARK, one) for one in others]
    for one in own:
        if not isinstance(one, OwnTool):
            raise ConfigError(f"{one!r:.80} is not a tool", hint="decorate the function with @treadle.tool")
    return (names if names or not own else None), tuple(own)


def _arguments(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"the tool {name!r} takes {parameter}, which cannot be described to a model")
        if parameter.name not in hints:
            raise ConfigError(f"the argument {parameter.name!r} of the tool {name!r} has no type")
        field = (parameter.name, hints[parameter.name])
        fields.append(field if parameter.default is parameter.empty else (*field, parameter.default))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


async def _run(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    result = await asyncio.to_thread(function, **values)
    return await result if isinstance(result, Awaitable) else result


def _text(result: Any) -> str:
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


# `output_type`: the agent's final answer as a value of a type, asked for again when it does not fit.

T = TypeVar("T")
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)


class AnswerType(Generic[T]):
    """A dataclass, msgspec Struct, TypedDict, pydantic model, or any other type that msgspec or pydantic can check."""

    def __init__(self, wanted: type[T]) -> None:
        self._wanted = wanted
        self._adapter: Any = None
        if hasattr(wanted, "__pydantic_validator__"):  # a pydantic model or dataclass, so pydantic is there
            from pydantic import TypeAdapter

            self._adapter = TypeAdapter(wanted)
        try:
            self.schema = self._adapter.json_schema() if self._adapter else msgspec.json.schema(wanted)
        except TypeError as error:
            raise ConfigError(f"output_type={wanted!r} cannot be described to a model: {error}") from None

    def demanded(self, prompt: str) -> str:
        """The prompt, with what the final message must be."""
        schema = msgspec.json.encode(self.schema).decode()
        return (
            f"{prompt}\n\nYour final message must be one JSON value that fits the schema below, and nothing else: no"
            f" prose, no code fence.\n{schema}"
        )

    def read(self, text: str) -> T:
        """The value. Raises ValueError that says what is wrong with the text."""
        fenced = FENCED.findall(text)
        data = fenced[-1] if fenced else text
        try:
            if self._adapter is not None:
                found: T = self._adapter.validate_json(data)
                return found
            return msgspec.json.decode(data.encode(), type=self._wanted)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    def again(self, complaint: str) -> str:
        return (
            f"That does not fit: {complaint}. Answer again with one JSON value that fits the schema, and nothing else."
        )


TRIES = 3
"""How often an answer of a certain type is asked for."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    text: str
    outcome: Outcome | None
    usage: Totals
    changes: tuple[FileChanged, ...]
    session_id: str
    error: ErrorInfo | None = None
    summary: TurnSummary
    ending: CheckedEnding | None = None
    """What the project's own check says about what was changed; None when the turn did not complete."""

    @property
    def ok(self) -> bool:
        """Whether it completed, and the project's check does not contradict it."""
        return self.outcome == "completed" and (self.ending is None or self.ending.state != "contradicted")

    @property
    def cost(self) -> float | None:
        """The cost in US dollars; None when a price is unknown."""
        return self.usage.cost_usd


class TypedResult(Result, Generic[T], frozen=True, kw_only=True):
    """The result of a turn that was asked for a value of a type."""

    values: tuple[T, ...] = ()
    """The value; empty when there is none, and then `error` says why."""

    @property
    def value(self) -> T:
        """The value. Raises ToolError when there is none: the turn did not complete, or no answer fitted."""
        if not self.values:
            why = self.error.message if self.error else f"the turn ended as {self.outcome}"
            raise ToolError(f"there is no value of that type: {why}")
        return self.values[0]


C = TypeVar("C", bound=Result)


class Conversation:
    """An open session. `turn` gives the events of one turn, `say` its result, which says what was checked."""

    def __init__(self, session: Session, check: TurnCheck | None = None) -> None:
        self.session = session
        self._check = check
        self._anew = True
        """Whether the next turn's beginning is what it is compared with: not while what went before is not verified."""
        self._served: ServedTurn | None = None
        self._failed: Exception | None = None

    @property
    def id(self) -> str:
        return self.session.id

    async def turn(self, prompt: str) -> AsyncIterator[AnyEvent]:
        """The events of one turn, ending with its TurnEnded. Leaving the loop early interrupts the turn.

        If `on_ask` raises, the question is denied, the turn is interrupted, and after its end the exception is raised.
        """
        async with ServedTurn(self.session, left="the program stopped listening") as served:
            await served.prompt(Prompt(text=prompt))
            self._served = served
            try:
                async for event in served:
                    if event.turn:
                        yield event
            finally:
                self._served = None
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    @overload
    async def say(self, prompt: str) -> Result: ...
    @overload
    async def say(self, prompt: str, *, output_type: type[T]) -> TypedResult[T]: ...
    async def say(self, prompt: str, *, output_type: type[T] | None = None) -> Result | TypedResult[T]:
        """The result of one turn. With `output_type` its `value` is the final answer as that type; an answer that does
        not fit is asked for again, twice.
        """
        if self._check is not None:
            await self._check.begin(anew=self._anew)
            self._anew = False
        if output_type is None:
            return await self._checked(_result([event async for event in self.turn(prompt)], self.session.id))
        wanted = AnswerType(output_type)
        events: list[AnyEvent] = []
        asked = wanted.demanded(prompt)
        complaint = ""
        for _ in range(TRIES):
            last = [event async for event in self.turn(asked)]
            events += last
            result = _result(last, self.session.id)
            if not result.ok:
                return _typed(events, self.session.id, (), result.error)
            try:
                value = wanted.read(result.text)
                return await self._checked(_typed(events, self.session.id, (value,), None))
            except ValueError as error:
                complaint = str(error)
                asked = wanted.again(complaint)
        wrong = ErrorInfo(code="schema_mismatch", message=f"the answer does not fit output_type: {complaint}")
        return _typed(events, self.session.id, (), wrong)

    async def _checked(self, result: C) -> C:
        if self._check is None or result.outcome != "completed":
            return result
        ending = await self._check.ending(result.summary)
        self._anew = ending.state == "verified"
        return replace(result, ending=ending)

    async def denied(self, asked: Asked, error: Exception) -> None:
        """`on_ask` raised this: deny what was asked, end the turn, and raise it there."""
        self._failed = error
        with suppress(NotFound):
            await self.session.answer(
                asked.request, Answer(decision="deny", text=f"on_ask failed: {error}", by="program")
            )
        if self._served is not None:
            await self._served.interrupt("on_ask failed")

    async def steer(self, text: str) -> bool:
        """Send more text to the running turn; False when none is running or it is too late.

        Raises Unsupported, with the reason, when the agent cannot be given messages while it works.
        """
        return self._served is not None and await self._served.steer(text)


@asynccontextmanager
async def opened(**options: Unpack[SessionOptions]) -> AsyncIterator[Conversation]:
    """A conversation, closed when the `async with` is left.

    `tools`: names of the agent's tools to offer, functions made with `@treadle.tool`, or both. `on_ask` answers
    permissions and questions; without it, what would be asked is refused. `verify`: whether `say` and `run` check what
    was changed, with the project's own command or this one. `pre_tool`, `post_tool` and `stop` are hooks,
    plain functions or coroutines. The others are the fields of SessionSpec: model, mode, rules, limits, system_prompt,
    append_system_prompt, resume, fork, session_id, name, persist, env ...
    """
    given: dict[str, Any] = dict(options)
    agent, on_ask = given.pop("agent", "native"), given.pop("on_ask", None)
    cwd, tools = os.path.abspath(_path(given.pop("cwd", "."))), given.pop("tools", None)
    verify = given.pop("verify", True)
    pre_tool, post_tool, stop = (given.pop(name, None) for name in ("pre_tool", "post_tool", "stop"))
    names, own = taken(tools)
    program = OwnProgram(tools=own, pre_tool=_async(pre_tool), post_tool=_async(post_tool), stop=_async(stop))
    spec = _spec(cwd=cwd, tools=names, program=program, answers=on_ask is not None, **given)
    found = find_agent(agent) if isinstance(agent, str) else agent
    if program != OwnProgram() and not (takes_programs(agent) if isinstance(agent, str) else agent.name == "native"):
        raise ConfigError(
            f"the agent {found.name!r} cannot use your tools and hooks", hint="use agent='native' or 'claude'"
        )
    session = await found.open(spec)
    off = "" if verify else "verify=False was given"
    check = TurnCheck(cwd, verify if isinstance(verify, str) else "", off=off)
    conversation = Conversation(session, check)
    answering = asyncio.create_task(_answer(conversation, on_ask)) if on_ask is not None else None
    try:
        yield conversation
    finally:
        await end_tasks(answering)
        check.close()
        await session.close()


open = opened
"""The public name of `opened`."""


async def query(prompt: str, **options: Unpack[SessionOptions]) -> AsyncIterator[AnyEvent]:
    """The events of one turn in a session of its own; the options are those of `open`."""
    async with opened(**options) as conversation:
        async for event in conversation.turn(prompt):
            yield event


@overload
def run(prompt: str, **options: Unpack[SessionOptions]) -> Result: ...
@overload
def run(prompt: str, *, output_type: type[T], **options: Unpack[SessionOptions]) -> TypedResult[T]: ...
def run(
    prompt: str, *, output_type: type[T] | None = None, **options: Unpack[SessionOptions]
) -> Result | TypedResult[T]:
    """One turn from a script or a notebook, without `async`; the options are those of `open`.

    With `output_type`, the result's `value` is the final answer as that type.
    """

    async def once() -> Result | TypedResult[T]:
        async with opened(**options) as conversation:
            if output_type is None:
                return await conversation.say(prompt)
            return await conversation.say(prompt, output_type=output_type)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_async(once())
    return _in_a_thread(once)


R = TypeVar("R")


def _in_a_thread(once: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Where an event loop already runs, as in a notebook, another one has to run in a thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, once()).result()


def _path(given: Any) -> str:
    try:
        return os.fsdecode(given)
    except TypeError:
        raise ConfigError(f"cwd must be a path, not {type(given).__name__}: {given!r:.60}") from None


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


async def _answer(conversation: Conversation, on_ask: OnAsk) -> None:
    session = conversation.session
    async for event in session.events(after=-1):
        if isinstance(event, Asked):
            try:
                given = on_ask(event)
                answer = _as_answer(event, await given if inspect.isawaitable(given) else given)
            except Exception as error:
                await conversation.denied(event, error)
                continue
            with suppress(NotFound):  # the deadline passed first
                await session.answer(event.request, answer)


def _as_answer(asked: Asked, given: Answer | bool | str | None) -> Answer:
    if isinstance(given, Answer):
        return given
    if isinstance(given, str):
        return Answer(decision="allow" if asked.kind == "question" else "deny", text=given, by="program")
    return Answer(decision="allow" if given else "deny", by="program")


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


def _typed(events: list[AnyEvent], session_id: str, values: tuple[T, ...], error: ErrorInfo | None) -> TypedResult[T]:
    """The result of all tries together, with what the last one gave."""
    whole = _result(events, session_id)
    fields = {name: getattr(whole, name) for name in Result.__struct_fields__}
    if error is not None:
        fields |= {"error": error, "outcome": "failed" if whole.ok else whole.outcome}
    return TypedResult(**fields, values=values)


def _async(function: Callable[..., Any] | None) -> Callable[..., Awaitable[Any]] | None:
    if function is None:
        return None

    async def call(*given: Any) -> Any:
        found = function(*given)
        return await found if inspect.isawaitable(found) else found

    return call
