"""Commands that change the session: its conversation, model, mode, permissions and memory."""

import os
from typing import Protocol, get_args

from treadle.agent import project
from treadle.agent.commands.base import SlashCommand, WrongUse, columns, reply
from treadle.agent.context import Context
from treadle.agent.permissions import Permissions
from treadle.io.files import append_lines
from treadle.session import AgentInfo, Change, CommandResult, Mode, Prompt, SessionSpec, TurnId, parse_mode


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


COMMANDS = (
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
