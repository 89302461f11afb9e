"""All slash commands by name, and those about the session. `/help` and the reference page are made from them."""

import asyncio
import os
import time
from contextlib import AbstractAsyncContextManager
from typing import Protocol, get_args

from treadle import __version__
from treadle.agent import project
from treadle.agent.commands import agents
from treadle.agent.commands.base import SlashCommand, WrongUse, columns, reply
from treadle.agent.context import Context, estimate
from treadle.agent.messages import AssistantMessage, ToolResult
from treadle.agent.permissions import Permissions
from treadle.agent.stored_sessions import find_session, list_sessions
from treadle.agent.tasks import Tasks
from treadle.agent.tools.registry import Registry
from treadle.agent.transcript import Named, Transcript
from treadle.errors import NotFound, TreadleError
from treadle.events import FINISHED
from treadle.io.files import append_lines
from treadle.session import (
    NOT_SEALED,
    AgentInfo,
    Change,
    CommandInfo,
    CommandResult,
    Instructions,
    Mode,
    Prompt,
    SessionSpec,
    TurnId,
    parse_mode,
)
from treadle.sessions.totals import Totals

# Commands that change the session: its conversation, model, mode, permissions and memory.


class Controlled(Protocol):
    """What these commands need of a session."""

    @property
    def spec(self) -> SessionSpec: ...
    @property
    def info(self) -> AgentInfo: ...
    @property
    def context(self) -> Context: ...
    @property
    def permissions(self) -> Permissions: ...
    def clear(self) -> None: ...
    async def compact(self, keep: str) -> bool: ...
    async def configure(self, change: Change) -> None: ...
    async def prompt(self, prompt: Prompt) -> TurnId: ...
    def add_rule(self, verdict: str, rule: str) -> None: ...
    def read_project(self) -> None: ...


async def _clear(session: Controlled, args: str) -> CommandResult:
    session.clear()
    return reply("The conversation starts afresh. /rewind still goes back to what was before.")


async def _compact(session: Controlled, args: str) -> CommandResult:
    before = session.context.tokens()
    if not session.context.messages:
        return reply("There is nothing to compact yet.")
    if not await session.compact(args.strip()):
        return reply("The conversation could not be summarised; it stays as it is.", ok=False)
    return reply(f"Compacted: about {before:,} tokens are now {session.context.tokens():,}.")


async def _model(session: Controlled, args: str) -> CommandResult:
    if not args.strip():
        return reply(f"The model is {', '.join(session.info.models)}. `treadle models` lists what there is.")
    await session.configure(Change(model=args.strip()))
    return reply(f"The model is now {args.strip()}.")


async def _mode(session: Controlled, args: str) -> CommandResult:
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


async def _plan(session: Controlled, args: str) -> CommandResult:
    await session.configure(Change(mode="plan"))
    if not args.strip():
        return reply("In plan mode nothing is changed; say what is to be planned. /mode MODE leaves it.")
    return CommandResult(message="", turn=await session.prompt(Prompt(text=args)))


async def _permissions(session: Controlled, args: str) -> CommandResult:
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


async def _memory(session: Controlled, args: str) -> CommandResult:
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


async def _exit(session: Controlled, args: str) -> CommandResult:
    return reply("bye")


CONTROL = (
    SlashCommand(name="clear", help="Forget the conversation so far; the session goes on.", run=_clear, alone="always"),
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
        help="List the files that the model knows by heart, or add a line to AGENTS.md here.",
        run=_memory,
    ),
    SlashCommand(name="exit", help="Leave.", run=_exit),
)


# Commands about sessions on disk: list, resume, fork, rename, and go back in time.

SHOWN = 20


class RecordedSession(Protocol):
    """What these commands need of a session."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> SessionSpec: ...
    @property
    def transcript(self) -> Transcript: ...
    async def move_to(self, transcript: Transcript) -> None: ...
    def rewind(self, turn: str, *, restore_files: bool = True) -> list[str]: ...


async def _sessions(session: RecordedSession, args: str) -> CommandResult:
    entries = await asyncio.to_thread(list_sessions, session.spec.cwd)
    rows = []
    for entry in entries[:SHOWN]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
        title = entry.name or _one_line(entry.prompt) or "(nothing said)"
        mark = "*" if entry.id == session.id else " "
        rows.append((f"{mark} {entry.id}", f"{when}  {entry.turns:3} turns  {title}"))
    more = f"\n{len(entries) - SHOWN} older ones: treadle sessions --here" if len(entries) > SHOWN else ""
    return reply((columns(rows) or "No session of this directory is saved.") + more)


async def _resume(session: RecordedSession, args: str) -> CommandResult:
    if not args.strip():
        shown = await _sessions(session, "")
        return reply(f"{shown.message}\n\n/resume ID goes on with one.")
    found = await asyncio.to_thread(find_session, args.strip())
    if found == session.id:
        return reply("That is this session.")
    await session.move_to(Transcript.open(found))
    return reply(f"Now in session {session.id}{_title(session)}: {len(session.transcript.turns())} turns so far.")


async def _fork(session: RecordedSession, args: str) -> CommandResult:
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


async def _rename(session: RecordedSession, args: str) -> CommandResult:
    name = " ".join(args.split())
    if not name:
        raise WrongUse("a session needs a name")
    session.transcript.append(Named(name=name), sync=True)
    return reply(f"This session is now called {name!r}: treadle --resume {_quoted(name)}")


async def _rewind(session: RecordedSession, args: str) -> CommandResult:
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
    changed = session.rewind(turns[int(words[0]) - 1].turn, restore_files=not keep)
    names = {path: os.path.relpath(path, session.spec.cwd) for path in changed}
    back = [name for path, name in names.items() if os.path.lexists(path)]
    gone = [name for path, name in names.items() if not os.path.lexists(path)]
    changes = [
        f" {what}: {', '.join(files)}." for what, files in (("Files put back", back), ("Removed", gone)) if files
    ]
    return reply(f"Back to before turn {words[0]}.{''.join(changes)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:60]


def _title(session: RecordedSession) -> str:
    return f" ({session.transcript.name})" if session.transcript.name else ""


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(name)


HISTORY = (
    SlashCommand(name="sessions", help="List the sessions of this directory, the latest first.", run=_sessions),
    SlashCommand(
        name="resume", usage=("[ID|NAME]",), help="Go on with another session.", run=_resume, alone="with arguments"
    ),
    SlashCommand(name="fork", usage=("[NAME]",), help="Go on in a copy of this session.", run=_fork, alone="always"),
    SlashCommand(name="rename", usage=("NAME",), help="Give this session a name to resume it by.", run=_rename),
    SlashCommand(
        name="rewind",
        usage=("", "N [--keep-files]"),
        help="List the turns, or go back to before one, with the files that were changed since.",
        run=_rewind,
        alone="with arguments",
    ),
)


# Commands that only look: they answer at once, also while a turn runs.


class SeenSession(Protocol):
    """What these commands need of a session."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> SessionSpec: ...
    @property
    def info(self) -> AgentInfo: ...
    @property
    def busy(self) -> bool: ...
    @property
    def transcript(self) -> Transcript: ...
    @property
    def context(self) -> Context: ...
    @property
    def spent(self) -> Totals: ...
    @property
    def tasks(self) -> Tasks: ...
    @property
    def tools(self) -> Registry: ...
    def system(self) -> str: ...


_SEALED = {True: "yes", False: f"no: {NOT_SEALED}", None: "nothing was started yet; commands are to be confined"}


async def _status(session: SeenSession, args: str) -> CommandResult:
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


async def _cost(session: SeenSession, args: str) -> CommandResult:
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


async def _context(session: SeenSession, args: str) -> CommandResult:
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


def _filled(session: SeenSession) -> str:
    used, window = session.context.tokens(), session.context.window
    return f"{used:,} of {window:,} tokens ({100 * used / window:.0f}%)"


async def _tools(session: SeenSession, args: str) -> CommandResult:
    if not len(session.tools):
        return reply("No tools are offered in this session.")
    return reply(columns([(f"{tool.name} ({tool.kind})", _sentence(tool.description)) for tool in session.tools]))


def _sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".") + "."


async def _skills(session: SeenSession, args: str) -> CommandResult:
    found = await asyncio.to_thread(project.skills, session.spec.cwd, session.spec.instructions)
    if not found:
        return reply("There are no skills here. A skill is a folder with a SKILL.md in .treadle/skills.")
    return reply(columns([(f"/{skill.name}", skill.description or skill.path) for skill in found]))


STATUS = (
    SlashCommand(name="status", help="Say where this session stands: model, mode, context, tasks, cost.", run=_status),
    SlashCommand(name="cost", help="Show what this session has cost, and its tokens by kind.", run=_cost),
    SlashCommand(name="context", help="Show how full the model's context window is, and with what.", run=_context),
    SlashCommand(name="tools", help="List the tools that the model can use.", run=_tools),
    SlashCommand(name="skills", help="List the skills that can be loaded here.", run=_skills),
)


# The table of all commands, and how one is run.


class Commanded(SeenSession, Controlled, RecordedSession, agents.Delegating, Protocol):
    """A session with slash commands: what each group of them needs, and a way to hold back turns meanwhile."""

    def alone(self) -> AbstractAsyncContextManager[None]: ...

    async def expanding(self, name: str, args: str, kind: str) -> None: ...


async def run(session: Commanded, name: str, args: str) -> CommandResult | None:
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


def _usage(command: SlashCommand[Commanded]) -> str:
    return "\n".join(f"{'usage:' if at == 0 else '      '} {form}" for at, form in enumerate(command.forms))


async def _start_turn(session: Commanded, name: str, args: str) -> CommandResult | None:
    """A command that the project or the person has written, or a skill: text for the model."""
    cwd, instructions = session.spec.cwd, session.spec.instructions
    found = project.commands(cwd, instructions).get(name)
    if found is not None:
        await session.expanding(name, args, "projectSettings")
        text = found.expand(args)
    else:
        skill = next((skill for skill in project.skills(cwd, instructions) if skill.name == name), None)
        if skill is None:
            return None
        await session.expanding(name, args, "skill")
        text = project.load_skill(skill) + (f"\n\n{args}" if args.strip() else "")
    return CommandResult(message="", turn=await session.prompt(Prompt(text=text)))


# The commands as data.


def every(cwd: str, instructions: Instructions) -> list[CommandInfo]:
    """Ours, then those of the project and the person, then the skills; of two with the same name, the first."""
    ours = [CommandInfo(name=c.name, description=c.help, arguments=" | ".join(c.usage)) for c in COMMANDS.values()]
    own = [CommandInfo(name=c.name, description=c.description) for c in project.commands(cwd, instructions).values()]
    skills = [
        CommandInfo(name=s.name, description=s.description, skill=True) for s in project.skills(cwd, instructions)
    ]
    found: dict[str, CommandInfo] = {}
    for command in (*ours, *own, *skills):
        found.setdefault(command.name, command)
    return list(found.values())


async def _help(session: Commanded, args: str) -> CommandResult:
    name = args.strip().removeprefix("/")
    cwd, instructions = session.spec.cwd, session.spec.instructions
    own, skills = project.commands(cwd, instructions), project.skills(cwd, instructions)
    if name in COMMANDS:
        return reply(f"{COMMANDS[name].help}\n{_usage(COMMANDS[name])}")
    if name in own:
        return reply(f"{own[name].description}\nusage: /{name} [ARGUMENTS]\nfrom {own[name].path}")
    if name:
        return reply(f"there is no command /{name}; /help lists them", ok=False)
    parts = [columns([(f"/{name}", command.help) for name, command in COMMANDS.items()])]
    if own:
        rows = [(f"/{name}", command.description) for name, command in own.items()]
        parts.append("Commands of this project and your own:\n" + columns(rows))
    if skills:
        parts.append("Skills:\n" + columns([(f"/{skill.name}", skill.description) for skill in skills]))
    parts.append("/help NAME says more about one.")
    return reply("\n\n".join(parts))


COMMANDS: dict[str, SlashCommand[Commanded]] = {
    command.name: command
    for command in (
        SlashCommand(name="help", usage=("[NAME]",), help="List all commands, or say how one is used.", run=_help),
        *STATUS,
        *CONTROL,
        *HISTORY,
        *agents.COMMANDS,
    )
}


_DURING_A_TURN = {"never": "yes", "with arguments": "without arguments", "always": "refused"}


def reference() -> str:
    """The table of docs/reference/slash-commands.md."""
    rows = ["| Command | What it does | During a turn |", "|---|---|---|"]
    for command in COMMANDS.values():
        forms = "<br>".join(f"`{form}`".replace("|", "\\|") for form in command.forms)
        rows.append(f"| {forms} | {command.help} | {_DURING_A_TURN[command.alone]} |")
    return "\n".join(rows) + "\n"
