"""Commands that only look: they answer at once, also while a turn runs."""

import asyncio
from typing import Protocol

from treadle import __version__
from treadle.agent import project
from treadle.agent.commands.base import SlashCommand, columns, reply
from treadle.agent.context import Context, estimate
from treadle.agent.messages import AssistantMessage, ToolResult
from treadle.agent.tasks import Tasks
from treadle.agent.tools.registry import Registry
from treadle.agent.transcript import Transcript
from treadle.events import FINISHED
from treadle.session import NOT_SEALED, AgentInfo, CommandResult, SessionSpec
from treadle.sessions.totals import Totals


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


COMMANDS = (
    SlashCommand(name="status", help="Say where this session stands: model, mode, context, tasks, cost.", run=_status),
    SlashCommand(name="cost", help="Show what this session has cost, and its tokens by kind.", run=_cost),
    SlashCommand(name="context", help="Show how full the model's context window is, and with what.", run=_context),
    SlashCommand(name="tools", help="List the tools that the model can use.", run=_tools),
    SlashCommand(name="skills", help="List the skills that can be loaded here.", run=_skills),
)
