"""`/agent` and `/background`: start subagents, alone or together, and manage what runs in the background."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from treadle.agent import detached
from treadle.agent.commands.base import SlashCommand, WrongUse, columns, reply
from treadle.agent.subagents import AGENT_TYPES, Assignment, Isolation
from treadle.agent.tasks import Groups, Tasks, UnknownGroup, read_log, succeeded, summary, worktree_note
from treadle.errors import NotFound
from treadle.events import Task, TaskGroup
from treadle.session import CommandResult

# Parses the arguments of `/agent run` and `/agent parallel`.
#
#     run [TYPE] [--agent T] [--model M] [--isolation none|worktree] [--background|--detach] PROMPT
#     parallel [--wait|--detach] [--model M] [--isolation ...] LABEL:"PROMPT" LABEL="PROMPT" LABEL=TYPE:"PROMPT" ...
#
# Quotes are single or double. Inside them a backslash escapes the quote or another backslash; before anything else it
# is just a backslash. Newlines and runs of spaces inside quotes, and in an unquoted PROMPT, survive.

MAX_MEMBERS = 64
LABEL = 60

_VALUES = {
    "--agent": "agent_type",
    "--type": "agent_type",
    "-a": "agent_type",
    "--model": "model",
    "--isolation": "isolation",
}
_MEMBER = re.compile(r"""([^\s:="']+)(?::|=(?:([^\s:="']+):)?)(?=["'])""")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_TYPES = {kind.name for kind in AGENT_TYPES.values()}


class TaskRequest(msgspec.Struct, kw_only=True):
    members: list[Assignment]
    background: bool = False
    detach: bool = False


class Options(msgspec.Struct, kw_only=True):
    agent_type: str | None = None
    model: str | None = None
    isolation: Isolation = "none"
    flags: set[str] = msgspec.field(default_factory=set)


class Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def word(self) -> str:
        """Look at the next word without taking it."""
        return self.rest.split(maxsplit=1)[0] if self.rest.strip() else ""

    def quoted(self) -> str:
        quote, begun = self.text[self.at], self.at
        letters: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            here, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if here == quote:
                self.at += 1
                return "".join(letters)
            if here == "\\" and following and following in (quote, "\\"):
                here = following
                self.at += 1
            letters.append(here)
            self.at += 1
        raise WrongUse(f"the quote in {_shown(self.text[begun:])} is never closed")

    def value(self, option: str) -> str:
        self.space()
        if self.rest[:1] in ('"', "'"):
            return self.quoted()
        word = self.word()
        self.at += len(word)
        if not word:
            raise WrongUse(f"{option} needs a value")
        return word

    def option(self, options: Options, flags: tuple[str, ...]) -> bool:
        """Take the option at this position. False when there is none."""
        found = _OPTION.match(self.rest)
        name = found[0] if found else ""
        after = self.rest[len(name) : len(name) + 1]
        if not name or (after and not after.isspace() and after != "="):
            return False
        if name in flags and after != "=":
            self.at += len(name)
            options.flags.add(name)
            return True
        if name not in _VALUES:
            raise WrongUse(f"there is no option {name}; put -- before a prompt that begins with a dash")
        self.at += len(name) + (after == "=")
        _set(options, name, self.value(name))
        return True


def _set(options: Options, name: str, value: str) -> None:
    field = _VALUES[name]
    if field == "isolation" and value not in ("none", "worktree"):
        raise WrongUse(f"--isolation is none or worktree, not {value!r}")
    if field == "agent_type" and value.lower() not in AGENT_TYPES:
        raise WrongUse(_no_type(value))
    setattr(options, field, value)


def parse_run(text: str) -> TaskRequest:
    scan, options = Scanner(text), Options()
    while True:
        scan.space()
        word = scan.word()
        if word == "--":
            scan.at += 2
            break
        if scan.option(options, ("--background", "--detach")):
            continue
        if options.agent_type is None and word in _TYPES and scan.rest[len(word) :].strip():
            options.agent_type = word
            scan.at += len(word)
            continue
        break
    prompt = _prompt(scan)
    return TaskRequest(
        members=[_assignment(prompt, " ".join(prompt.split())[:LABEL], options, None)],
        background="--background" in options.flags,
        detach="--detach" in options.flags,
    )


def _prompt(scan: Scanner) -> str:
    """Everything that is left; if that is one quoted text, the text inside the quotes."""
    scan.space()
    whole = scan.rest.rstrip()
    if whole[:1] in ('"', "'"):
        inner = Scanner(whole)
        try:
            inside = inner.quoted()
        except WrongUse:
            inside = ""  # perhaps an apostrophe at the start: then it is not quoted at all
        else:
            whole = inside if not inner.rest else whole
    if not whole.strip():
        raise WrongUse("what is the agent to do?")
    return whole


def parse_parallel(text: str) -> TaskRequest:
    scan, options = Scanner(text), Options()
    found: list[tuple[str, str | None, str]] = []
    while True:
        scan.space()
        if not scan.rest:
            break
        if not scan.option(options, ("--wait", "--detach")):
            found.append(_member(scan))
    if not found:
        raise WrongUse("there is no agent to start")
    if len(found) > MAX_MEMBERS:
        raise WrongUse(f"{len(found)} agents are more than the {MAX_MEMBERS} that can be started at once")
    return TaskRequest(
        members=[_assignment(prompt, label, options, kind) for label, kind, prompt in found],
        detach="--detach" in options.flags and "--wait" not in options.flags,
    )


def _member(scan: Scanner) -> tuple[str, str | None, str]:
    found = _MEMBER.match(scan.rest)
    if found is None:
        raise WrongUse(f'expected LABEL:"PROMPT" where {_shown(scan.rest)} stands')
    label, kind = found[1], found[2]
    if kind is not None and kind.lower() not in AGENT_TYPES:
        raise WrongUse(_no_type(kind))
    scan.at += found.end()
    prompt = scan.quoted()
    if scan.rest and not scan.rest[0].isspace():
        raise WrongUse(f"a space is missing before {_shown(scan.rest)}")
    if not prompt.strip():
        raise WrongUse(f"what is {label} to do?")
    return label, kind, prompt


def _assignment(prompt: str, label: str, options: Options, kind: str | None) -> Assignment:
    return Assignment(
        prompt=prompt,
        label=label,
        agent_type=kind or options.agent_type,
        model=options.model,
        isolation=options.isolation,
    )


def _no_type(name: str) -> str:
    return f"there is no agent type {name!r}: the types are {', '.join(sorted(_TYPES))}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


class Delegating(detached.Starter, Protocol):
    """What these commands need of a session."""

    @property
    def tasks(self) -> Tasks: ...
    @property
    def groups(self) -> Groups: ...


async def _agent(session: Delegating, args: str) -> CommandResult:
    verb, rest = _verb(args)
    if verb == "run":
        return await _run(session, parse_run(rest))
    if verb == "parallel":
        return await _parallel(session, parse_parallel(rest))
    if verb in ("", "list") and not rest.strip():
        return await _list(session, "agent")
    if verb in _AGENT_VERBS:
        return await _AGENT_VERBS[verb](session, rest)
    return await _run(session, parse_run(args))


async def _background(session: Delegating, args: str) -> CommandResult:
    verb, rest = _verb(args)
    if verb in ("", "list") and not rest.strip():
        return await _list(session, None)
    if verb not in _BACKGROUND_VERBS:
        raise WrongUse(f"{verb!r} is not something /background does")
    return await _BACKGROUND_VERBS[verb](session, rest)


def _verb(args: str) -> tuple[str, str]:
    found = re.match(r"\s*(\S*)\s?", args)
    assert found is not None
    return found[1], args[found.end() :]


# Starting...


async def _run(session: Delegating, request: TaskRequest) -> CommandResult:
    [work] = request.members
    if request.detach:
        return await _detach(session, request)
    task = session.tasks.add(work, background=request.background)
    if request.background:
        return CommandResult(message=f"Started agent job: {task.id}", data={"task": task.id})
    try:
        task = await session.tasks.wait(task.id)
    except asyncio.CancelledError:
        task = session.tasks.get(task.id)
        return CommandResult(
            message=(task.output or "") + worktree_note(task, "\n\n"), ok=False, data={"task": task.id}
        )
    text = task.output or ""
    if task.status != "completed":
        text = f"Agent job {task.id} {task.status}: {task.error.message if task.error else text or 'it said nothing'}"
    ok = task.status == "completed"
    return CommandResult(message=text + worktree_note(task, "\n\n"), ok=ok, data={"task": task.id})


async def _parallel(session: Delegating, request: TaskRequest) -> CommandResult:
    if request.detach:
        return await _detach(session, request)
    group = session.groups.start(request.members)
    try:
        return _group_result(await session.groups.wait(group.id))
    except asyncio.CancelledError:
        return _group_result(await session.groups.stop(group.id, "the command that started it was interrupted"))


async def _detach(session: Delegating, request: TaskRequest) -> CommandResult:
    group, tasks = await detached.start(session, request.members)
    jobs = [f"{task.label}: {task.id}" for task in tasks]
    message = "\n".join(["Started agent jobs:", *jobs, f"They run on by themselves: /agent wait {group.id}"])
    return CommandResult(message=message, data={"group": group.id, "tasks": list(group.tasks)})


def _group_result(group: TaskGroup) -> CommandResult:
    return CommandResult(message=summary(group), ok=succeeded(group), data={"group": group.id})


# Dealing with what runs...


async def _wait(session: Delegating, rest: str) -> CommandResult:
    wanted = _one(rest, "which group?")
    found = None if wanted in session.groups else detached.find(wanted)
    if wanted not in session.groups and (found is None or found.group.id != wanted):
        raise UnknownGroup(wanted)
    try:
        return _group_result(await (found.wait(session.emit) if found else session.groups.wait(wanted)))
    except asyncio.CancelledError:
        return _group_result(detached.Detached(found.directory).group if found else session.groups.get(wanted))


async def _list(session: Delegating, kind: str | None) -> CommandResult:
    groups = await asyncio.to_thread(detached.every)
    ours = [(task, "") for task in session.tasks.list()]
    rows = ours + [(task, f" in {group.group.id}") for group in groups for task in group.tasks]
    shown = [
        (f"{task.id}  {task.status}", f"{task.label}{where}{_action(task)}")
        for task, where in rows
        if kind in (None, task.kind)
    ]
    return reply(columns(shown) or "Nothing runs in the background.")


def _action(task: Task) -> str:
    return f"  ({task.current_action})" if task.current_action else ""


async def _read(session: Delegating, rest: str) -> CommandResult:
    words = rest.split()
    if not 1 <= len(words) <= 2 or not all(word.isdigit() for word in words[1:]):
        raise WrongUse("which task, and from which byte on?")
    task = _find(session, words[0])
    text, following, size = await asyncio.to_thread(read_log, task.log_path, int((words[1:] or ["0"])[0][:18]))
    head = f"{task.id} ({task.label}): {task.status}" + (f": {task.error.message}" if task.error else "")
    more = f"\n[{size - following} more bytes: read {task.id} {following}]" if following < size else ""
    session.tasks.seen(task.id)
    return reply(f"{head}\n\n{text.rstrip()}{more}".rstrip())


async def _send(session: Delegating, rest: str) -> CommandResult:
    wanted, text = _verb(rest)
    if not wanted or not text.strip():
        raise WrongUse("to which agent, and what?")
    task = _find(session, wanted)
    found = None if session.tasks.has(task.id) else detached.find(task.id)
    heard = await (found.send(task.id, text) if found else session.tasks.send(task.id, text))
    return reply(f"{task.id} hears it at its next step." if heard else f"{task.id} is {task.status}", ok=heard)


async def _stop(session: Delegating, rest: str) -> CommandResult:
    wanted, reason = _verb(rest)
    if not wanted:
        raise WrongUse("which one?")
    if session.tasks.has(wanted):
        task = await session.tasks.stop(wanted, reason.strip())
        return reply(f"{task.id} {task.status}")
    if wanted in session.groups:
        return reply(summary(await session.groups.stop(wanted, reason.strip())))
    found = _detached(wanted)
    await found.stop(wanted, reason.strip())
    return reply(f"{wanted} was told to stop")


async def _close(session: Delegating, rest: str) -> CommandResult:
    wanted = _one(rest, "which one?")
    if session.tasks.has(wanted):
        await session.tasks.forget(wanted)
    else:
        found = _detached(wanted)
        await found.close(wanted)
    return reply(f"Closed {wanted}")


def _one(rest: str, question: str) -> str:
    words = rest.split()
    if len(words) != 1:
        raise WrongUse(question)
    return words[0]


def _find(session: Delegating, wanted: str) -> Task:
    if session.tasks.has(wanted):
        return session.tasks.get(wanted)
    found = _detached(wanted)
    for task in found.tasks:
        if task.id == wanted:
            return task
    raise NotFound(f"{wanted} is a group", hint=f"its tasks are {', '.join(found.group.tasks)}")


def _detached(wanted: str) -> detached.Detached:
    found = detached.find(wanted)
    if found is None:
        raise NotFound(f"there is no task {wanted!r}", hint="/background list shows them; /agent run takes a prompt")
    return found


_Verb = Callable[[Delegating, str], Awaitable[CommandResult]]
_BACKGROUND_VERBS: dict[str, _Verb] = {
    **dict.fromkeys(("read", "log", "open"), _read),
    **dict.fromkeys(("cancel", "stop"), _stop),
    **dict.fromkeys(("close", "dismiss"), _close),
}
_AGENT_VERBS: dict[str, _Verb] = {
    "wait": _wait,
    "read": _read,
    "open": _read,
    "send": _send,
    "stop": _stop,
    "cancel": _stop,
    "close": _close,
}

COMMANDS = (
    SlashCommand(
        name="agent",
        usage=(
            "run [TYPE] [--agent TYPE] [--model M] [--isolation none|worktree] [--background|--detach] PROMPT",
            'parallel [--wait|--detach] [--model M] [--isolation none|worktree] LABEL:"PROMPT" LABEL=TYPE:"PROMPT" ...',
            "wait GROUP",
            "list",
            "read ID [OFFSET]",
            "send ID TEXT",
            "stop ID [REASON]",
            "close ID",
            "PROMPT",
        ),
        help="Give work to subagents, one or several at once, and follow them.",
        run=_agent,
    ),
    SlashCommand(
        name="background",
        usage=("list", "read ID [OFFSET]", "cancel ID [REASON]", "close ID"),
        help="Deal with everything that runs in the background: agents and processes.",
        run=_background,
    ),
)
