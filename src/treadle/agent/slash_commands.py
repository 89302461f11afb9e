"""Slash commands by name, and what each does. `/help` and the reference page are made from them."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias, get_args

import msgspec

from treadle import __version__
from treadle.agent import detached
from treadle.agent.context import Context, estimate
from treadle.agent.messages import AssistantMessage, ToolResult
from treadle.agent.permissions import Permissions
from treadle.agent.stored_sessions import find_session, list_sessions
from treadle.agent.tasks import (
    AGENT_TYPES,
    Assignment,
    Groups,
    Isolation,
    Tasks,
    UnknownGroup,
    read_log,
    succeeded,
    summary,
    worktree_note,
)
from treadle.agent.toolbox import Registry
from treadle.agent.tools.files import show
from treadle.agent.transcript import Named, Restored, Transcript
from treadle.errors import NotFound, TreadleError
from treadle.events import FINISHED, Task, TaskGroup
from treadle.io.files import append_lines
from treadle.session import (
    NOT_SEALED,
    Change,
    CommandInfo,
    CommandResult,
    Instructions,
    Mode,
    ModelMenu,
    Prompt,
    TurnId,
    parse_mode,
)
from treadle.sessions.totals import Totals
from treadle.settings import project
from treadle.settings.claude import Reading

# What a slash command is: a name, its arguments, one line of help, and what it does to a session.


class CommandedSession(detached.Starter, Protocol):
    """What commands need of a session; they know nothing else about it."""

    @property
    def busy(self) -> bool: ...
    @property
    def context(self) -> Context: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def permissions(self) -> Permissions: ...
    @property
    def spent(self) -> Totals: ...
    @property
    def tasks(self) -> Tasks: ...
    @property
    def tools(self) -> Registry: ...
    @property
    def transcript(self) -> Transcript: ...
    def add_rule(self, verdict: str, rule: str) -> None: ...
    def alone(self) -> AbstractAsyncContextManager[None]:
        """Holds back turns meanwhile."""
        ...

    def clear(self) -> None: ...
    async def compact(self, keep: str) -> bool: ...
    async def configure(self, change: Change) -> None: ...
    async def expanding(self, name: str, args: str, kind: str) -> None: ...
    async def menu(self, asking: bool = False) -> ModelMenu: ...
    async def move_to(self, transcript: Transcript) -> None: ...
    async def prompt(self, prompt: Prompt) -> TurnId: ...
    def read_project(self) -> None: ...
    def say_unused(self, name: str, reading: Reading) -> None: ...
    async def rewind(self, turn: str, *, restore_files: bool = True) -> Restored: ...
    def system(self) -> str: ...


Verb: TypeAlias = Callable[[CommandedSession, str], Awaitable[CommandResult]]


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    usage: tuple[str, ...] = ("",)
    """The forms its arguments can have."""
    help: str
    run: Verb
    """(session, the text after the name, unchanged) -> result."""
    alone: Literal["never", "with arguments", "always"] = "never"
    """When it cannot run during a turn, nor a turn during it."""

    def must_be_alone(self, args: str) -> bool:
        return self.alone == "always" or (self.alone == "with arguments" and bool(args.strip()))

    @property
    def forms(self) -> list[str]:
        return [f"/{self.name} {arguments}".rstrip() for arguments in self.usage]


class WrongUse(Exception):
    """The arguments make no sense; `why` says how. The answer then also shows the correct forms."""

    def __init__(self, why: str) -> None:
        self.why = why


def reply(message: str, *, ok: bool = True) -> CommandResult:
    return CommandResult(message=message, ok=ok)


def columns(rows: list[tuple[str, str]]) -> str:
    """Two columns; the second one of a row may be empty."""
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{left.ljust(width)}  {right}".rstrip() for left, right in rows)


# `/agent`: start subagents, alone or together, and manage what runs in the background, processes as well.

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


async def _agent(session: CommandedSession, args: str) -> CommandResult:
    verb, rest = _verb(args)
    if verb == "run":
        return await _run(session, parse_run(rest))
    if verb == "parallel":
        return await _parallel(session, parse_parallel(rest))
    if verb in ("", "list") and not rest.strip():
        return await _list(session)
    if verb in _AGENT_VERBS:
        return await _AGENT_VERBS[verb](session, rest)
    if not rest.strip():  # more likely a name that is wrong than a task
        raise WrongUse(f"{_shown(verb)} is no agent that is known here; `/agent run PROMPT` starts a subagent")
    return await _run(session, parse_run(args))


def _verb(args: str) -> tuple[str, str]:
    found = re.match(r"\s*(\S*)\s?", args)
    assert found is not None
    return found[1], args[found.end() :]


# Starting...


async def _run(session: CommandedSession, request: TaskRequest) -> CommandResult:
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
        text = f"Agent job {task.id} {task.status}: {task.error.message if task.error else text or 'no output'}"
    ok = task.status == "completed"
    return CommandResult(message=text + worktree_note(task, "\n\n"), ok=ok, data={"task": task.id})


async def _parallel(session: CommandedSession, request: TaskRequest) -> CommandResult:
    if request.detach:
        return await _detach(session, request)
    group = session.groups.start(request.members)
    try:
        return _group_result(await session.groups.wait(group.id))
    except asyncio.CancelledError:
        return _group_result(await session.groups.stop(group.id, "the command that started it was interrupted"))


async def _detach(session: CommandedSession, request: TaskRequest) -> CommandResult:
    group, tasks = await detached.start(session, request.members)
    jobs = [f"{task.label}: {task.id}" for task in tasks]
    message = "\n".join(["Started agent jobs:", *jobs, f"They run on by themselves: /agent wait {group.id}"])
    return CommandResult(message=message, data={"group": group.id, "tasks": list(group.tasks)})


def _group_result(group: TaskGroup) -> CommandResult:
    return CommandResult(message=summary(group), ok=succeeded(group), data={"group": group.id})


# Dealing with what runs...


async def _wait(session: CommandedSession, rest: str) -> CommandResult:
    wanted = _one(rest, "which group?")
    found = None if wanted in session.groups else detached.find(wanted)
    if wanted not in session.groups and (found is None or found.group.id != wanted):
        raise UnknownGroup(wanted)
    try:
        return _group_result(await (found.wait(session.emit) if found else session.groups.wait(wanted)))
    except asyncio.CancelledError:
        return _group_result(detached.Detached(found.directory).group if found else session.groups.get(wanted))


async def _list(session: CommandedSession) -> CommandResult:
    groups = await asyncio.to_thread(detached.every)
    ours = [(task, "") for task in session.tasks.list()]
    rows = ours + [(task, f" in {group.group.id}") for group in groups for task in group.tasks]
    does = {task.id: f"  ({task.current_action})" for task, _ in rows if task.current_action}
    shown = [(f"{task.id}  {task.status}", f"{task.label}{where}{does.get(task.id, '')}") for task, where in rows]
    return reply(columns(shown) or "Nothing runs in the background.")


async def _read(session: CommandedSession, rest: str) -> CommandResult:
    words = rest.split()
    if not 1 <= len(words) <= 2 or not all(word.isdigit() for word in words[1:]):
        raise WrongUse("name the task and the byte offset")
    task = _find(session, words[0])
    text, following, size = await asyncio.to_thread(read_log, task.log_path, int((words[1:] or ["0"])[0][:18]))
    head = f"{task.id} ({task.label}): {task.status}" + (f": {task.error.message}" if task.error else "")
    more = f"\n[{size - following} more bytes: read {task.id} {following}]" if following < size else ""
    session.tasks.seen(task.id)
    return reply(f"{head}\n\n{text.rstrip()}{more}".rstrip())


async def _send(session: CommandedSession, rest: str) -> CommandResult:
    wanted, text = _verb(rest)
    if not wanted or not text.strip():
        raise WrongUse("name the agent and the message")
    task = _find(session, wanted)
    found = None if session.tasks.has(task.id) else detached.find(task.id)
    heard = found.send(task.id, text) if found else await session.tasks.send(task.id, text)
    return reply(f"{task.id} hears it at its next step." if heard else f"{task.id} is {task.status}", ok=heard)


async def _stop(session: CommandedSession, rest: str) -> CommandResult:
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
    return reply(f"{wanted} has ended")


async def _close(session: CommandedSession, rest: str) -> CommandResult:
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


def _find(session: CommandedSession, wanted: str) -> Task:
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
        raise NotFound(f"there is no task {wanted!r}", hint="/agent list shows them; /agent run takes a prompt")
    return found


_AGENT_VERBS: dict[str, Verb] = {
    "wait": _wait,
    "read": _read,
    "open": _read,
    "send": _send,
    "stop": _stop,
    "cancel": _stop,
    "close": _close,
}

AGENT_COMMANDS = (
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
        help="Give work to subagents, one or several at once; follow and stop them and background processes.",
        run=_agent,
    ),
)


# All slash commands by name, and those about the session. `/help` and the reference page are made from them.

# Commands that change the session: its conversation, model, mode, permissions and memory.


async def _clear(session: CommandedSession, args: str) -> CommandResult:
    session.clear()
    return reply("The conversation starts over. /rewind still goes back to what was before.")


async def _compact(session: CommandedSession, args: str) -> CommandResult:
    before = session.context.tokens()
    if not session.context.messages:
        return reply("There is nothing to compact yet.")
    if not await session.compact(args.strip()):
        return reply("The conversation could not be summarised; it stays as it is.", ok=False)
    return reply(f"Compacted: about {before:,} tokens are now {session.context.tokens():,}.")


async def _model(session: CommandedSession, args: str) -> CommandResult:
    if args.strip():
        await session.configure(Change(model=args.strip()))
        return reply(f"The model is now {args.strip()}.")
    head = f"The model is {', '.join(session.info.models)}. /model NAME takes another:"
    return reply("\n".join([head, *(each.id for each in (await session.menu(asking=True)).offered)]))


async def _mode(session: CommandedSession, args: str) -> CommandResult:
    permissions = session.permissions
    if not args.strip():
        rows = [(f"{'*' if mode == permissions.mode else ' '} {mode}", means) for mode, means in MEANS.items()]
        return reply(columns(rows) + ("" if permissions.mode else "\nNo mode decides here: what no rule forbids runs."))
    await session.configure(Change(mode=parse_mode(args.strip())))
    return reply(f"The mode is now {permissions.mode}.")


MEANS: dict[Mode, str] = {
    "plan": "reads; changes nothing and runs nothing",
    "suggest": "asks before each change and each command",
    "auto-edit": "changes files here without asking; asks before each command",
    "full-auto": "changes files and runs commands without asking, confined where that works",
    "yolo": "does everything without asking, and nothing is confined",
}


async def _plan(session: CommandedSession, args: str) -> CommandResult:
    await session.configure(Change(mode="plan"))
    if not args.strip():
        return reply("In plan mode nothing is changed; describe what to plan. /mode MODE leaves it.")
    return CommandResult(message="", turn=await session.prompt(Prompt(text=args)))


async def _permissions(session: CommandedSession, args: str) -> CommandResult:
    if args.strip():
        verdict, _, rule = args.strip().partition(" ")
        if verdict not in ("allow", "ask", "deny") or not rule.strip():
            raise WrongUse(f"{args.strip()!r} is not a rule with allow, ask or deny in front")
        session.add_rule(verdict, rule.strip())
        return reply(f"For this session: {verdict} {rule.strip()}")
    permissions = session.permissions
    rules = permissions.rules
    rows = [(verdict, rule) for verdict in ("deny", "ask", "allow") for rule in getattr(rules, verdict)]
    rows += [("allowed by you", f"{tool} {target}".rstrip()) for tool, target in sorted(permissions.remembered)]
    return reply(f"mode: {permissions.mode or 'none'}\n" + (columns(rows) if rows else "No rules."))


async def _memory(session: CommandedSession, args: str) -> CommandResult:
    verb, _, text = args.strip().partition(" ")
    if not verb:
        spec = session.spec
        rows = [
            (path, f"{len(text.encode()):,} bytes")
            for path, text in project.knowledge_files(spec.cwd, spec.instructions)
        ]
        where = "The model reads these at the start of every turn:\n" + columns(rows)
        return reply(where if rows else "There is no AGENTS.md yet. /memory add TEXT begins one.")
    if verb != "add" or not text.strip():
        raise WrongUse("what is to be remembered?" if verb == "add" else f"{verb!r} is not something /memory does")
    path = os.path.join(session.spec.cwd, "AGENTS.md")
    append_lines(path, [f"- {' '.join(text.split())}".encode()], mode=0o644)
    session.read_project()
    return reply(f"Added to {path}")


async def _exit(session: CommandedSession, args: str) -> CommandResult:
    return reply("bye")


CONTROL = (
    SlashCommand(name="clear", help="Clear the conversation; the session continues.", run=_clear, alone="always"),
    SlashCommand(
        name="compact",
        usage=("[WHAT TO KEEP]",),
        help="Replace the conversation by a summary of it, to make room.",
        run=_compact,
        alone="always",
    ),
    SlashCommand(
        name="model", usage=("[NAME]",), help="Show the model, or change it.", run=_model, alone="with arguments"
    ),
    SlashCommand(
        name="mode",
        usage=(f"[{'|'.join(get_args(Mode))}]",),
        help="Show what each permission mode allows, or change the mode.",
        run=_mode,
    ),
    SlashCommand(name="plan", usage=("[PROMPT]",), help="Enter plan mode, in which nothing is changed.", run=_plan),
    SlashCommand(
        name="permissions",
        usage=("", "allow|ask|deny RULE"),
        help="Show the permission rules, or add one for this session.",
        run=_permissions,
    ),
    SlashCommand(
        name="memory",
        usage=("", "add TEXT"),
        help="List the files that are always in the model's context, or add a line to AGENTS.md.",
        run=_memory,
    ),
    SlashCommand(name="exit", help="Leave.", run=_exit),
)


# Commands about sessions on disk: list, resume, fork, rename, and go back in time.

SHOWN = 20


async def _sessions(session: CommandedSession, args: str) -> CommandResult:
    entries = await asyncio.to_thread(list_sessions, session.spec.cwd)
    rows = []
    for entry in entries[:SHOWN]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
        title = entry.name or _one_line(entry.prompt) or "(nothing said)"
        mark = "*" if entry.id == session.id else " "
        rows.append((f"{mark} {entry.id}", f"{when}  {entry.turns:3} turns  {title}"))
    more = f"\n{len(entries) - SHOWN} older ones: treadle sessions --here" if len(entries) > SHOWN else ""
    return reply((columns(rows) or "No session of this directory is saved.") + more)


async def _resume(session: CommandedSession, args: str) -> CommandResult:
    if not args.strip():
        shown = await _sessions(session, "")
        return reply(f"{shown.message}\n\n/resume ID continues one.")
    found = await asyncio.to_thread(find_session, args.strip())
    if found == session.id:
        return reply("That is this session.")
    await session.move_to(Transcript.open(found))
    return reply(f"Now in session {session.id}{_title(session)}: {len(session.transcript.turns())} turns so far.")


async def _fork(session: CommandedSession, args: str) -> CommandResult:
    old = session.transcript
    copy = Transcript.create(
        cwd=session.spec.cwd,
        model=old.model,
        name=args.strip() or None,
        persist=session.spec.start.persist,
        forked=old,
    )
    original = old.header.id
    await session.move_to(copy)
    return reply(f"Now in session {session.id}, a copy of {original}, which stays as it was.")


async def _rename(session: CommandedSession, args: str) -> CommandResult:
    name = " ".join(args.split())
    if not name:
        raise WrongUse("a session needs a name")
    session.transcript.append(Named(name=name), sync=True)
    return reply(f"This session is now called {name!r}: treadle --resume {_quoted(name)}")


async def _rewind(session: CommandedSession, args: str) -> CommandResult:
    words = args.split()
    keep = "--keep-files" in words
    words = [word for word in words if word != "--keep-files"]
    turns = session.transcript.turns()
    if len(words) > 1 or any(not word.isdigit() for word in words):
        raise WrongUse(f"{' '.join(words)!r} is not the number of a turn")
    if not words:
        rows = [(f"{at:3}", _one_line(turn.prompt)) for at, turn in enumerate(turns, 1)]
        return reply(columns(rows) + "\n\n/rewind N goes back to before turn N." if rows else "There are no turns yet.")
    if not 0 < int(words[0]) <= len(turns):
        raise NotFound(f"there is no turn {words[0]}", hint="/rewind lists them")
    done = await session.rewind(turns[int(words[0]) - 1].turn, restore_files=not keep)
    names = {path: show(os.path.relpath(path, os.path.realpath(session.spec.cwd))) for path in done.changed}
    lists = {
        "Files put back": [name for path, name in names.items() if os.path.lexists(path)],
        "Removed": [name for path, name in names.items() if not os.path.lexists(path)],
        "Left as they are, because they were changed after the turn": [*map(show, done.changed_since)],
        "Not restored, because they are ignored or too large": [*map(show, done.lost)] + ["..."] * bool(done.more),
        "Not known, because it ran without a chat: what commands changed in turn": [*map(str, done.unseen)],
    }
    text = [f" {what}: {_listed(files)}." for what, files in lists.items() if files]
    text += [
        f" No commit was moved: {f'the submodule {show(path)}' if path else 'HEAD'} is at {now[:12] or 'none'}, and was"
        f" at {before[:12]}."
        for path, (now, before) in done.heads.items()
    ]
    return reply(f"Back to before turn {words[0]}.{''.join(text)}")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:60]


def _title(session: CommandedSession) -> str:
    return f" ({session.transcript.name})" if session.transcript.name else ""


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(name)


HISTORY = (
    SlashCommand(name="sessions", help="List the sessions of this directory, the latest first.", run=_sessions),
    SlashCommand(
        name="resume", usage=("[ID|NAME]",), help="Continue another session.", run=_resume, alone="with arguments"
    ),
    SlashCommand(name="fork", usage=("[NAME]",), help="Continue in a copy of this session.", run=_fork, alone="always"),
    SlashCommand(name="rename", usage=("NAME",), help="Give this session a name to resume it by.", run=_rename),
    SlashCommand(
        name="rewind",
        usage=("", "N [--keep-files]"),
        help="List the turns, or go back to before one, with the workspace as it was.",
        run=_rewind,
        alone="with arguments",
    ),
)


# Commands that only look: they answer at once, also while a turn runs.


_SEALED = {True: "yes", False: f"no: {NOT_SEALED}", None: "nothing was started yet; commands are to be confined"}


async def _status(session: CommandedSession, args: str) -> CommandResult:
    running = sum(task.status not in FINISHED for task in session.tasks.list())
    rows = [
        ("treadle", __version__),
        ("session", session.id + (f" ({session.transcript.name})" if session.transcript.name else "")),
        ("directory", session.spec.cwd),
        ("model", ", ".join(session.info.models)),
        ("mode", session.info.mode or "none"),
        ("sealed", _SEALED[session.info.sealed]),
        ("turns", f"{len(session.transcript.turns())}" + (", one is running" if session.busy else "")),
        ("context", _filled(session)),
        ("tasks", f"{running} running, {len(session.tasks.list()) - running} ended"),
        ("tokens", f"{session.spent.total_tokens:,}"),
        ("cost", _dollars(session.spent.cost_usd, session.spent.calls)),
    ]
    return reply(columns(rows))


async def _cost(session: CommandedSession, args: str) -> CommandResult:
    spent = session.spent
    rows = [
        ("cost", _dollars(spent.cost_usd, spent.calls)),
        ("model calls", f"{spent.calls:,}"),
        ("input tokens", f"{spent.input_tokens:,}"),
        ("cache read tokens", f"{spent.cache_read_tokens:,}"),
        ("cache write tokens", f"{spent.cache_write_tokens:,}"),
        ("output tokens", f"{spent.output_tokens:,}"),
    ]
    if spent.estimated:
        rows.append(("note", "some calls reported no usage; theirs is an estimate"))
    return reply(columns(rows))


def _dollars(cost: float | None, calls: int) -> str:
    if not calls:
        return "nothing yet"
    return "unknown: no price is known for this model" if cost is None else f"${cost:.4f}"


async def _context(session: CommandedSession, args: str) -> CommandResult:
    context = session.context
    kinds = {"by you": 0, "by the model": 0, "from tools": 0}
    for message in context.messages:
        kind = {AssistantMessage: "by the model", ToolResult: "from tools"}.get(type(message), "by you")
        kinds[kind] += estimate(message)
    rows = [
        ("in use", _filled(session)),
        ("messages", f"{len(context.messages):,}"),
        *((kind, f"about {tokens:,} tokens") for kind, tokens in kinds.items()),
        ("system prompt", f"about {len(session.system().encode()) // 4:,} tokens"),
    ]
    return reply(columns(rows))


def _filled(session: CommandedSession) -> str:
    used, window = session.context.tokens(), session.context.window
    return f"{used:,} of {window:,} tokens ({100 * used / window:.0f}%)"


async def _tools(session: CommandedSession, args: str) -> CommandResult:
    if not len(session.tools):
        return reply("No tools are offered in this session.")
    return reply(columns([(f"{tool.name} ({tool.kind})", _sentence(tool.description)) for tool in session.tools]))


def _sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".") + "."


async def _skills(session: CommandedSession, args: str) -> CommandResult:
    found = await asyncio.to_thread(project.skills, session.spec.cwd, session.spec.instructions)
    if not found:
        return reply("There are no skills here. A skill is a folder with a SKILL.md in .treadle/skills.")
    return reply(columns([(f"/{skill.name}", skill.description or skill.path) for skill in found]))


STATUS = (
    SlashCommand(name="status", help="Show this session's state: model, mode, context, tasks, cost.", run=_status),
    SlashCommand(name="cost", help="Show what this session has cost, and its tokens by kind.", run=_cost),
    SlashCommand(name="context", help="Show how full the model's context window is, and with what.", run=_context),
    SlashCommand(name="tools", help="List the tools that the model can use.", run=_tools),
    SlashCommand(name="skills", help="List the skills that can be loaded here.", run=_skills),
)


# The table of all commands, and how one is run.


async def run(session: CommandedSession, name: str, args: str) -> CommandResult | None:
    """Run `/name args`; None when there is no such command. An error is a failed result."""
    command = COMMANDS.get(name)
    try:
        if command is None:
            return await _start_turn(session, name, args)
        if not command.must_be_alone(args):
            return await command.run(session, args)
        async with session.alone():
            return await command.run(session, args)
    except WrongUse as wrong:
        assert command is not None
        return reply(f"{wrong.why}\n{_usage(command)}", ok=False)
    except TreadleError as error:
        return reply(str(error), ok=False)


def _usage(command: SlashCommand) -> str:
    return "\n".join(f"{'usage:' if at == 0 else '      '} {form}" for at, form in enumerate(command.forms))


async def _start_turn(session: CommandedSession, name: str, args: str) -> CommandResult | None:
    """A command that the project or the person has written, or a skill: text for the model."""
    cwd, instructions = session.spec.cwd, session.spec.instructions
    found = next((one for one in project.skills(cwd, instructions) if one.name == name and one.by_person), None)
    if found is None:
        return None
    await session.expanding(name, args, "projectSettings" if found.command else "skill")
    session.say_unused(name, found.reading)
    text = await asyncio.to_thread(project.load_skill, found, args)
    return CommandResult(message="", turn=await session.prompt(Prompt(text=text)))


# The commands as data.


def every(cwd: str, instructions: Instructions) -> list[CommandInfo]:
    """Ours, then those of the project and the person, then the skills; of two with the same name, the first."""
    ours = [CommandInfo(name=c.name, description=c.help, arguments=" | ".join(c.usage)) for c in COMMANDS.values()]
    found = {command.name: command for command in ours}
    for one in project.skills(cwd, instructions):
        if one.by_person:
            about = CommandInfo(name=one.name, description=one.description, arguments=one.hint, skill=not one.command)
            found.setdefault(one.name, about)
    return list(found.values())


async def _help(session: CommandedSession, args: str) -> CommandResult:
    name = args.strip().removeprefix("/")
    cwd, instructions = session.spec.cwd, session.spec.instructions
    own = {one.name: one for one in project.skills(cwd, instructions) if one.by_person}
    if name in COMMANDS:
        return reply(f"{COMMANDS[name].help}\n{_usage(COMMANDS[name])}")
    if name in own:
        return reply(
            f"{own[name].description}\nusage: /{name} {own[name].hint or '[ARGUMENTS]'}\nfrom {own[name].path}"
        )
    if name:
        return reply(f"there is no command /{name}; /help lists them", ok=False)
    parts = [columns([(f"/{name}", command.help) for name, command in COMMANDS.items()])]
    for title, command in (("Commands of this project and your own", True), ("Skills", False)):
        if rows := [(f"/{name}", one.description) for name, one in own.items() if one.command is command]:
            parts.append(f"{title}:\n{columns(rows)}")
    parts.append("/help NAME says more about one.")
    return reply("\n\n".join(parts))


COMMANDS: dict[str, SlashCommand] = {
    command.name: command
    for command in (
        SlashCommand(name="help", usage=("[NAME]",), help="List all commands, or show how one is used.", run=_help),
        *STATUS,
        *CONTROL,
        *HISTORY,
        *AGENT_COMMANDS,
    )
}
