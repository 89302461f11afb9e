"""One conversation of the native agent, assembled from all its parts."""

from __future__ import annotations

import asyncio
import math
import os
import platform
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

import msgspec

from treadle import __version__
from treadle.agent.configuration import Configuration
from treadle.agent.context import Context, estimate
from treadle.agent.hooks import SessionHooks
from treadle.agent.loop import TurnBudget
from treadle.agent.messages import (
    AssistantMessage,
    Image,
    ModelRequest,
    Preparing,
    Provider,
    ToolResult,
    ToolSchema,
    UserMessage,
)
from treadle.agent.permissions import Permissions
from treadle.agent.tasks import AgentType, Groups, Tasks, child_spec, kinds
from treadle.agent.toolbox import Registry, ServersChanged, Toolbox
from treadle.agent.tools.base import ALLOW_PRIVATE, DEFERRED, FOUND, SHELL, AnyTool, ToolContext, writing_freely
from treadle.agent.tools.files import Resolved
from treadle.agent.tools.images import show, show_document
from treadle.agent.transcript import (
    KILLED,
    Cleared,
    MessageRecord,
    Record,
    Restored,
    Rewound,
    Spent,
    Switched,
    Transcript,
    TurnBegan,
    TurnOver,
    TurnTrees,
)
from treadle.errors import Denied, ToolError, TreadleError, Unsupported
from treadle.events import (
    FINISHED,
    Asked,
    CommandRun,
    Event,
    FileChanged,
    ImageFile,
    Message,
    Task,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.sandboxed.confining import Confining
from treadle.session import (
    Access,
    AgentInfo,
    Answer,
    Change,
    CommandInfo,
    CommandResult,
    Decision,
    Instructions,
    Mode,
    ModelMenu,
    OwnTool,
    Prompt,
    Subagent,
)
from treadle.sessions.abilities import ABILITIES
from treadle.sessions.session import BaseSession, Turn, new_id
from treadle.sessions.totals import Totals
from treadle.settings import project, trust
from treadle.settings.claude import Reading
from treadle.settings.config import HookSettings
from treadle.settings.project import mentioned

if TYPE_CHECKING:
    from treadle.agent.hooks import HookStep
    from treadle.agent.loop import Parts, TurnLoop
    from treadle.agent.rewinding import Trees
    from treadle.agent.tools.file_tools import ReadArgs
    from treadle.gateway.spending import Spending


# The system prompt: who the agent is, where it works, what the project says, which skills there are.

PERSONA = """You are Treadle, a coding agent that works in a person's repository through tools.

How you work:
- Understand before you change: read the files that matter and look for how the project already does a thing.
- Do what was asked, all of it, and nothing else. Follow the style, names and tools that the project uses.
- Make small exact edits with edit_file; write_file is for new files. Never guess a file's content.
- Check your work: run the tests or the program when there is a way to, and read what it prints.
- When a tool fails, read the error and change your approach; do not repeat the same call.
- When something is refused, respect it: find another way or say what you could not do.
- Ask the person only when a wrong guess would cost them something; otherwise choose, and say what you chose.
- Never claim what you have not seen. If tests were not run or failed, say so.
- Answer briefly and plainly: what you did, where, and what is left."""


PLANNING = """\
You are in plan mode: nothing may be changed. Read what you need, then answer with a plan: numbered steps with the files
each one touches, how it will be checked, and open questions."""


def build(
    *,
    cwd: str,
    mode: Mode | None,
    persona: str | None = None,
    append: str | None = None,
    knowledge: str = "",
    skills: str = "",
    today: date | None = None,
) -> str:
    where = (
        f"Working directory: {cwd}\nPlatform: {platform.system()} {platform.machine()}\nDate: {today or date.today()}"
    )
    parts = [
        persona if persona is not None else PERSONA,
        PLANNING if mode == "plan" else "",
        where,
        knowledge,
        skills,
        append or "",
    ]
    return "\n\n".join(part for part in parts if part)


# A prompt that comes with images, or mentions files as `@path`: they are shown with it.

MOST = 20
"""How many files are shown with one prompt."""
MOST_NAMES = 1000
"""How many names of a directory."""


async def with_all(prompt: Prompt, context: ToolContext, judge: Callable[[Access], Decision] | None) -> UserMessage:
    """The prompt with its images, and with the files it mentions if a judge of what may be read is given."""
    shown = [show(data, f"image {number}", context) for number, data in enumerate(prompt.images, 1)]
    shown += [show_document(data, f"document {number}", context) for number, data in enumerate(prompt.documents, 1)]
    text = "\n".join([prompt.text, *shown])
    if judge is not None:
        text = await with_files(text, context, judge)
    return UserMessage(text=text, images=tuple(context.images))


async def with_files(text: str, context: ToolContext, judge: Callable[[Access], Decision]) -> str:
    """The prompt, followed by the files that it mentions and that may be read without asking. Images among them are
    then in the context.
    """
    from treadle.agent.tools.file_tools import READ_FILE

    parts: dict[str, str] = {}
    for names in mentioned(text):
        args = next((args for name in names if (args := _part_of_file(name, context)) is not None), None)
        folder = next((name for name in names if args is None and os.path.isdir(context.resolve(name))), "")
        if folder and folder not in parts and len(parts) < MOST:
            access = Access(tool="read_file", kind="read", paths=(str(context.resolve(folder)),))
            allowed = judge(access).verdict == "allow"
            held = sorted(os.listdir(access.paths[0]))[:MOST_NAMES] if allowed else ["it may not be read here"]
            parts[folder] = f"[the directory {folder}, as it is now]\n" + "\n".join(held)
        if args is None or len(parts) == MOST:
            continue
        last = f"-{args.end_line}" if args.end_line != args.offset else ""
        name = f"{args.file_path}, lines {args.offset}{last}" if args.offset else args.file_path
        if name in parts:
            continue
        if judge(READ_FILE.access(args, context.resolve)).verdict != "allow":
            shown = "it may not be read here"
        else:
            try:
                shown = await READ_FILE.run(args, context)
            except ToolError as error:
                shown = error.message
        parts[name] = f"[{name}, as it is now]\n{shown}"
    return "\n\n".join([text, *parts.values()])


def _part_of_file(name: str, context: ToolContext) -> ReadArgs | None:
    """What to read for a mention: a file, or lines of it, as in `a.py#L10-12`; None when there is no such file."""
    from treadle.agent.tools.file_tools import ReadArgs

    if os.path.isfile(context.resolve(name)):
        return ReadArgs(file_path=name)
    lines = re.fullmatch(r"(.+)#L([1-9]\d{0,8})(?:-L?([1-9]\d{0,8}))?", name)
    if lines is None or not os.path.isfile(context.resolve(lines[1])):
        return None
    return ReadArgs(file_path=lines[1], offset=int(lines[2]), end_line=int(lines[3] or lines[2]))


# Replays a stored conversation as events, for the one who opens it again and wants to see what was said.


def replay(
    records: Iterable[Record], image_file: Callable[[Image], ImageFile], *, steered: bool = False
) -> list[Event]:
    """What a person saw, without what was cleared or taken back. `image_file` returns where an image is. `steered`:
    what they said during a turn is a prompt, too."""
    turns: list[tuple[str, list[Event]]] = []
    for record in records:
        match record:
            case TurnBegan():
                turns.append((record.turn, [TurnStarted(prompt=record.prompt, turn=record.turn)]))
            case MessageRecord(message=UserMessage(text=text)) if turns and steered:
                if len(turns[-1][1]) > 1 and not text.startswith("["):  # such as the end of a background task
                    turns[-1][1].append(TurnStarted(prompt=text, turn=record.turn))
            case MessageRecord() if turns:
                turns[-1][1].extend(_events(record, image_file))
            case Cleared():
                turns.clear()
            case Rewound():
                before = next((place for place, (turn, _) in enumerate(turns) if turn == record.turn), len(turns))
                del turns[before:]
    return [event for _, events in turns for event in events]


def _events(record: MessageRecord, image_file: Callable[[Image], ImageFile]) -> list[Event]:
    message, found = record.message, list[Event]()
    if isinstance(message, AssistantMessage):
        found += [Message(text=block.text, kind="thinking") for block in message.thinking if block.text]
        found += [Message(text=message.text, model=message.model)] if message.text else []
        for call in message.calls:
            args = _arguments(call.arguments)
            from treadle.policy.guess import access_of

            access = access_of(call.name, args)
            found.append(
                ToolStarted(
                    call=call.id,
                    name=call.name,
                    args=args,
                    kind=access.kind,
                    paths=access.paths,
                    command=access.command,
                )
            )
    elif isinstance(message, ToolResult):
        images = tuple(map(image_file, message.images))
        ended = ToolEnded(call=message.call, name=message.name, result=message.text, ok=message.ok, images=images)
        found.append(ended)
    return found


def _arguments(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text


NAME = "native"
IDLE = 0.02
"""After this many idle seconds from the start, there is time to load what a turn needs."""
LOOK_SECONDS = 10.0
"""How long a look at the workspace may take, which a turn waits for."""
T = TypeVar("T")
GOES_ON = 8  # how often in a turn a hook may make the agent continue when it is done
CAPABILITIES: Mapping[str, Any] = dict.fromkeys((*ABILITIES, "guards"), "native")


class NativeSession(BaseSession):
    takes_documents = True
    _sources: list[tuple[str, str]] = []
    """The instructions that the model reads, until hooks were told of them."""
    _prompt_id = _last_prompt = ""
    """What hooks are told of the last prompt, where the host has said when one begins."""

    def __init__(
        self,
        configuration: Configuration,
        transcript: Transcript,
        provider: Provider,
        *,
        parent: NativeSession | None = None,
        task: str | None = None,
        kind: str = "",
    ) -> None:
        spec, settings = configuration.spec, configuration.settings
        info = AgentInfo(name=NAME, version=__version__, capabilities=dict(CAPABILITIES))
        patience = settings.timeouts.question if spec.answer_seconds is None else spec.answer_seconds
        super().__init__(transcript.header.id, info, answers=spec.answers, question_seconds=patience)
        self._spans = self._spans if parent is None else None  # the parent passes on what its subagents do
        self.configuration = configuration
        self.spec = spec
        self.transcript = transcript
        self.provider = provider
        self.weak = configuration.provider(configuration.weak_model) if configuration.weak_model else provider
        self.context = self._new_context()
        self.spent = Totals.of(transcript.spent())
        self._budget: Spending | None = None
        self.confining = Confining.of(spec, configuration.add_dirs, configuration.confinement, self.id)
        self.confining.seconds = configuration.limits.max_seconds
        self.confining.above = parent.confining if parent is not None else None
        self.tasks = Tasks(
            session_id=self.id,
            emit=self.note,
            open_child=self.open_child,
            finished=self._task_finished,
            directory=lambda: self.transcript.folder("output"),
            cwd=spec.cwd,
            room=self.room,
            watching=self.confining.watching(spec.guards.watching),
            kinds=lambda: self.kinds,
        )
        self.groups = Groups(self.tasks, self.note, self.id)
        self.model = spec.model
        """The model that was asked for; None: the one that the settings or the environment name."""
        self._unheard: list[str] = []  # how tasks ended while no turn ran: the next turn begins with it
        self._owned = [self.weak] if self.weak is not provider else []
        if parent is None or provider is not parent.provider:
            self._owned.append(provider)
        self._parent = parent
        self._task = task
        self._loop: TurnLoop | None = None
        self._memory: dict[str, Any] = {}
        self._trees: Trees | Literal[False] | None = False
        """None: the workspace cannot be looked at in time."""
        self._taken = ""
        self._taking = asyncio.Lock()
        self._about_git = partial(self._warn, code="git")
        self.forget()
        self._child_env, self._withheld = configuration.child_env, [] if parent else configuration.withheld
        started: dict[str, Any] = {"env": self._child_env, "warn": self._warn, "confinement": self.confining.now}
        self._hooks = SessionHooks(
            spec.program,
            settings.hooks if spec.instructions.project else HookSettings(),
            lambda: (parent or self).transcript,
            lambda: self.mode,
            cwd=spec.cwd,
            agent=(task, kind) if task is not None else ("", ""),
            entrypoint=configuration.entrypoint,
            deeper=project.DeeperKnowledge(spec.cwd, spec.instructions).about,
            judge=self.judge,
            stop_turn=self.stop_turn,
            about=self.asked_now,
            **started,
        )
        self.toolbox = Toolbox(configuration, **started)
        self._knowledge = ""
        self._skills: list[project.Skill] = []
        self._agents: list[AgentType] = []
        self._style = ""
        self.permissions: Permissions = Permissions(
            configuration,
            ask=self.ask if spec.answers else None,
            deadline=self.deadline,
            emit=self.emit,
            readable=self._readable,
            confining=self.confining,
            parent=parent.permissions if parent is not None else None,
            event=self._hooks.event,
        )

    @property
    def mode(self) -> Mode | None:
        return self.permissions.mode

    @property
    def kinds(self) -> dict[str, AgentType]:
        """The kinds of subagents: ours, those of files, and those of the host, which win."""
        found = kinds((*self._agents, *self.spec.subagents))
        if not (model := self.configuration.theirs.subagent_model):
            return found
        return {name: msgspec.structs.replace(kind, model=model) for name, kind in found.items()}

    @property
    def tools(self) -> Registry:
        return self.toolbox.registry

    @property
    def info(self) -> AgentInfo:
        return msgspec.structs.replace(
            self._info,
            models=(self.provider.model,),
            tools=tuple(tool.name for tool in self._offered()),
            mode=self.mode,
            key_source=self.configuration.key_source(self.provider),
            mcp_servers=self.toolbox.states,
            subagents=tuple(kind.name for kind in self.kinds.values()),
            context_window=self.context.window,
            context_used=self.context.counted_tokens,
            sealed=self.confining.sealed,
        )

    def _new_context(self) -> Context:
        wanted, window = self.configuration.settings.context, self.configuration.window(self.provider)
        return Context(
            self.transcript, self.note, window=window, protect=wanted.protect_tokens, compact_at=wanted.compact_at
        )

    async def begin(self) -> None:
        """Read the project's texts, start its servers, and report what a person should know before the first turn."""
        for message in self.configuration.notes:
            self.emit(Warned(message=message, code="settings"))
        if lost := self.transcript.skipped:
            self.emit(Warned(message=f"{lost} lines of this session's history are unreadable", code="history"))
        if self.transcript.killed:
            self.emit(Warned(message=f"the turn before was {KILLED}", code="history"))
        self.read_project()
        if self.confining.asked.use == "on":
            _ = self.confining.wanted  # refuse now rather than at the first command
        await self.toolbox.start(lambda message: self._warn(message, "settings"))
        source = "resume" if self.transcript.listing.turns else "startup"
        if more := await self._hooks.started(source, self.provider.model):
            self._unheard.append(more)
        if isinstance(self.provider, Preparing):  # done while we wait for the first prompt
            asyncio.get_running_loop().call_later(IDLE, self.provider.prepare)

    def read_project(self) -> None:
        instructions = self.spec.instructions
        owner = trust.foreign_owner(self.spec.cwd) if instructions.uses("project") else None
        if owner is not None and project.has_words(self.spec.cwd):
            self.emit(Warned(message=f"AGENTS.md, skills and commands of this project: {owner}", code="settings"))
        self._sources = project.knowledge_parts(self.spec.cwd, instructions)
        self._knowledge = "\n\n".join(f"# {path}\n\n{text}" for path, text in self._sources)
        for path, text in self._sources:
            if text.endswith(project.CUT):
                self._warn(f"{path} is too long: only its first {project.FILE_CAP // 1024} KB are used", "settings")
        self._skills = project.skills(self.spec.cwd, instructions) if "skill" in self.tools else []
        self.confining.shown = tuple(os.path.dirname(skill.path) for skill in self._skills)
        broken: list[str] = []
        self._agents = project.agents(self.spec.cwd, instructions, broken) if "task" in self.tools else []
        wanted = self.spec.extra.get("output_style") or self.configuration.settings.output_style
        style = project.output_style(wanted, self.spec.cwd, instructions) if instructions.project else ""
        if style is None:
            broken.append(f"there is no output style {wanted!r}: the usual one is used")
        self._style = style or ""
        for message in broken:
            self._warn(message, "settings")
        self.permissions.rebuild()

    def _readable(self) -> list[str]:
        """Directories that may be read wherever they are: kept output of tools, skills, and plugins."""
        skills = (os.path.dirname(skill.path) for skill in self._skills)
        return [*self.transcript.outputs, *skills, *self.spec.instructions.plugins]

    def _warn(self, message: str, code: str = "") -> None:
        self.emit(Warned(message=message, code=code))

    # A turn

    def _keep_for_sdk(self, *, anew: bool) -> None:
        """Keep the session where the SDK that drives us lists and reads it, before it has a turn: one with turns that
        is not there was deleted by the SDK."""
        from treadle.agent.claude_lines import claude_path

        if anew or not os.path.exists(claude_path(self.transcript, self.configuration.entrypoint)):
            _ = self._hooks.transcript_path

    async def _turn(self, turn: Turn) -> TurnEnded:
        for_sdk = bool(self.configuration.entrypoint) and self._parent is None and self.spec.start.persist
        if for_sdk:
            self._keep_for_sdk(anew=False)
        self.transcript.append(TurnBegan(turn=turn.id, prompt=turn.prompt.text, ts=self._clock()))
        outcome, reason = "interrupted", ""
        try:
            budget = TurnBudget(self.configuration.limits)
            self.confining.begin_turn()
            await self.toolbox.connected()
            await self.tell_sources()
            refused, before = await self._hooks.prompted(turn.prompt.text)
            if refused is not None:
                outcome, turn.text = "completed", f"a hook blocked the prompt: {refused}"
                return turn.ending("completed")
            if before:
                self._unheard.append(before)
            ended = await self._work(turn, await self._prompt(turn), budget)
            for _ in range(GOES_ON):
                done, own = ended.outcome == "completed", partial(self._hooks.written, self.transcript)
                if (more := await self._hooks.stopping(ended.text, own) if done else None) is None:
                    break
                ended = await self._work(turn, UserMessage(text=more), budget)
            outcome = ended.outcome
            return ended
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            outcome, reason = "failed", str(error)
            raise
        finally:
            self._loop = None
            try:
                await self.confining.finish(self._about_git)
                await self._after_changes(turn)
                await self._hooks.turn_end(outcome, turn.text)
                if outcome == "failed" and self._parent is None:
                    payload = {"error": "unknown", "last_assistant_message": turn.text}
                    await self._hooks.event("StopFailure", payload)
            finally:  # the turn may be interrupted while the hook runs
                listing, now = self.transcript.listing, self._clock()
                over = TurnOver(turn=turn.id, outcome=outcome, reason=reason, ts=now, listing=listing)
                self.transcript.append(over, sync=True)
                if for_sdk:
                    self._keep_for_sdk(anew=True)

    async def _prompt(self, turn: Turn) -> UserMessage:
        """What was asked, with its images, and the mentioned files that the model could read itself."""
        given = turn.prompt
        mentions = "@" in given.text and self._parent is None and not given.verbatim and "read_file" in self.tools
        if not mentions and not given.images and not given.documents:
            return UserMessage(text=given.text)

        return await with_all(given, self._tool_context(turn, turn.id), self.permissions.guard if mentions else None)

    async def _work(self, turn: Turn, message: UserMessage, budget: TurnBudget) -> TurnEnded:
        from treadle.agent.loop import TurnLoop  # a session is open before everything that a turn needs is loaded

        while self._unheard:
            self.context.add(UserMessage(text=self._unheard.pop(0)), turn.id)
        self._loop = TurnLoop(turn, self._parts(turn, budget))
        ended = await self._loop.run(message)
        if self.mode == "plan" and ended.outcome == "completed" and await self._plan_approved(ended.text):
            self.permissions.set_mode("auto-edit")
            return await self._work(turn, UserMessage(text="The plan is approved. Carry it out now."), budget)
        return ended

    async def _plan_approved(self, plan: str) -> bool:
        if self._parent is not None:
            return False  # a subagent's plan is its answer
        asked = Asked(request=new_id("ask"), kind="plan", text=plan, deadline=self.deadline())
        if not self._answers:
            self.emit(asked)
            return False
        return (await self.ask(asked)).decision == "allow"

    def _spending(self) -> Spending | None:
        """What the session may still spend, with its subagents; None where nothing limits it."""
        limits, calling = self.configuration.limits, self.spec.guards.calling
        if self._parent is not None:
            return self._parent._spending()
        if self._budget is None and (limits.max_cost_usd is not None or limits.max_tokens is not None or calling):
            from treadle.gateway.spending import Spending

            self._budget = Spending(limits, self.provider.cost, self.spent, calling)
        return self._budget

    def _spend(self, usage: Usage) -> None:
        super()._spend(usage)
        if self._budget is not None:
            self._budget.add(usage)

    def _parts(self, turn: Turn, budget: TurnBudget) -> Parts:
        from treadle.agent.loop import Parts, Repeats

        return Parts(
            provider=self.provider,
            weak=self.weak,
            system=self.system(),
            tools=self.tools,
            schemas=self._schemas,
            thinking=self.spec.thinking,
            max_output_tokens=self.configuration.theirs.output_tokens if self.provider.name == "anthropic" else None,
            cache_key=(self._parent or self).id,
            context=self.context,
            budget=budget,
            repeats=Repeats(self.configuration.limits.repeats, strict=bool(self.spec.extra.get("strict_repeats"))),
            hooks=self._hooks,
            permit=self.permissions.permit,
            tool_context=partial(self._tool_context, turn),
            emit=self.note,
            room=self.room,
            watching=self.confining.watching(self.spec.guards.watching),
            ready=partial(self.confining.ready, self._about_git),
            settle=partial(self.confining.settle, self._about_git),
            edited=self.confining.edited,
            keep=self.permissions.keep,
            spending=self._spending(),
            changing=self._before_change,
        )

    # What a turn changes, for going back

    async def _before_change(self, access: Access) -> None:
        """Take the workspace's tree before the first call of a turn that may change it, where a person may go back."""
        if self._parent is not None:
            return await self._parent._before_change(access)
        turn = self._current
        if turn is None or self.spec.answer_seconds != math.inf or not self.spec.start.persist or self._trees is None:
            return
        if access.command is not None:
            from treadle.policy import shell, writes

            if writes.only_looks(shell.read(access.command)):
                return
        async with self._taking:
            if self._taken != turn.id:
                await self._take_tree(self.trees.begin)
                self._taken = turn.id

    async def _after_changes(self, turn: Turn) -> None:
        if self._taken == turn.id and self._trees is not None:
            if (found := await self._take_tree(partial(self.trees.end, turn.id))) is not None:
                self.transcript.append(found)

    async def _take_tree(self, take: Callable[[], T]) -> T | None:
        import threading

        from treadle.io.tasks import heeding, within

        halt = threading.Event()
        try:
            async with within(LOOK_SECONDS):
                with heeding(halt):
                    return await asyncio.to_thread(take)
        except TimeoutError:
            self._trees = None
            self._warn(f"/rewind knows only edited files: looking at all took more than {LOOK_SECONDS:g} s", "rewind")
        except (TreadleError, OSError) as error:
            self._trees = None
            self._warn(f"/rewind knows only edited files here: {error}", "rewind")
        finally:
            halt.set()
        return None

    @property
    def trees(self) -> Trees:
        if not self._trees:
            from treadle.agent.rewinding import Trees

            self._trees = Trees(self.spec.cwd, lambda: self.transcript.folder("trees"))
        return self._trees

    def _offered(self) -> list[AnyTool]:
        found = self._memory.get(FOUND, {})
        return self.toolbox.offered(answers=self._answers, skills=bool(self._skills), found=found)

    def _schemas(self) -> tuple[ToolSchema, ...]:
        """The tools as the model sees them; there may be more at each step."""
        offered = self._offered()
        self._memory[DEFERRED] = self.toolbox.deferred
        return self.toolbox.schemas(offered, self.kinds.values())

    def system(self) -> str:
        more = self.spec.instructions.append or self.configuration.settings.append_system_prompt or ""
        if language := self.spec.extra.get("language") or self.configuration.settings.language:
            more = f"{more}\n\nAlways answer in {language}, whatever language the files are in.".strip()
        return build(
            cwd=self.spec.cwd,
            mode=self.mode,
            persona=self.configuration.persona,
            knowledge=self._knowledge,
            skills=project.offer([skill for skill in self._skills if skill.by_model]),
            append=f"{self._style}\n\n{more}".strip(),
        )

    def note(self, event: Event) -> None:
        """Emit the event, and keep what counts over the whole session."""
        if type(event) is Usage:
            self.transcript.append(Spent(usage=event))
        elif isinstance(event, CommandRun | FileChanged):
            self._hooks.saw(event)
            self._tell_withheld(event)
        self.emit(event)

    # Tools

    def _tool_context(self, turn: Turn, call: str) -> ToolContext:
        cwd = Path(self.spec.cwd)
        return ToolContext(
            cwd=cwd,
            call=call,
            emit=self.note,
            ask=partial(self._question, call),
            env=dict(self._child_env),
            backup=lambda path: self.transcript.back_up(turn.id, str(path)),
            overflow=self._overflow,
            writing=self.spec.guards.writing or writing_freely,
            background=self.tasks,
            timeout=self.configuration.command_seconds,
            grace=self.configuration.grace,
            state=self._memory,
            resolve=Resolved(cwd, self._memory.get(SHELL)),
            inside=tuple(self.permissions.guard.inside),
            lasting=self.configuration.lasting,
            hidden=self.permissions.guard.hides,
            confinement=partial(self.confining.announced, self.emit),
            leave=self.confining.leave,
            instructions=self.spec.instructions,
            reaching=self.permissions.reaching(call),
            keep_image=self.transcript.keep_image if self.provider.sees else None,
            documents=getattr(self.provider, "documents", False),
            refused=self.permissions.refused,
        )

    def _overflow(self, call: str, text: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call)[-80:] + ".txt"
        return Path(self.transcript.keep("output", name, text.encode(errors="replace")))

    async def _question(self, call: str, text: str, options: tuple[str, ...]) -> Answer:
        details: dict[str, Any] = {"options": options, "call": call, "deadline": self.deadline()}
        return await self.ask(Asked(request=new_id("ask"), kind="question", text=text, **details))

    async def ask(self, asked: Asked) -> Answer:
        """A subagent passes its questions to its parent, because the people who can answer are there."""
        if self._parent is not None:
            with self._parent.tasks.asking(self._task):
                return await self._parent.ask(msgspec.structs.replace(asked, parent=self._task))
        return await super().ask(asked)

    # Tasks

    async def open_child(self, task_id: str, kind: AgentType, task: Task) -> NativeSession:
        wanted = kind.tools if kind.tools is not None else self.tools.names
        tools = tuple(name for name in wanted if name != "task" and name in self.tools and name not in kind.denied)
        spec = child_spec(self.spec, kind, task, tools, self.mode)
        verdict = await self._hooks.event("SubagentStart", {"agent_id": task_id, "agent_type": kind.name})
        if verdict.context:
            instructions = f"{spec.instructions.append}\n\n{verdict.context}"
            spec = msgspec.structs.replace(
                spec, instructions=msgspec.structs.replace(spec.instructions, append=instructions)
            )
        provider = self.configuration.provider(task.model) if task.model else self.provider
        transcript = Transcript.create(cwd=task.cwd, model=provider.model, persist=False)
        configuration = msgspec.structs.replace(self.configuration, spec=spec)
        child = NativeSession(configuration, transcript, provider, parent=self, task=task_id, kind=kind.name)
        for name in tools:
            if name not in child.tools:  # a server's tool: the server runs once, for all
                child.tools.add(self.tools.get(name))
        child._knowledge, child.tools.withheld = self._knowledge, self.tools.withheld
        return child

    def _task_finished(self, task: Task) -> None:
        """The agent learns of it at its next step."""
        outcome = task.output or (task.error.message if task.error else f"exit code {task.exit_code}")
        note = f"[background task {task.id} ({task.label}) {task.status}]\n{outcome}"
        if self._current is None or not self._current.steer(note):
            self._unheard.append(note)

    # The rest of the contract

    async def _interrupt_other(self, target: str, reason: str) -> None:
        if self._loop is not None and target in self._loop.running:
            self._loop.running[target].cancel()
        elif any(task.id == target for task in self.tasks.list()):
            await self.tasks.stop(target)

    async def _steer(self, turn: Turn, text: str) -> bool:
        return turn.steer(text)

    def commands(self) -> list[CommandInfo]:
        from treadle.agent import slash_commands  # imported here because most sessions never get a command

        return slash_commands.every(self.spec.cwd, self.spec.instructions)

    async def _command(self, name: str, args: str) -> CommandResult | None:
        from treadle.agent import slash_commands

        return await slash_commands.run(self, name, args)

    def clear(self) -> None:
        """Start the conversation afresh; its record goes on."""
        self.transcript.append(Cleared(), sync=True)
        self.context.reload()
        self.forget()

    async def compact(self, keep: str) -> bool:
        """Replace the whole conversation by a summary that keeps what `keep` names. False when that failed."""
        from treadle.agent.loop import summarise

        payload = {"trigger": "manual", "custom_instructions": keep or None}
        if (verdict := await self._hooks.event("PreCompact", payload)).decision == "deny":
            self._warn(f"not compacted, because a hook blocked it: {verdict.reason}")
            return False
        if done := await self.context.compact(
            partial(summarise, self.weak, self.note, self._spending(), keep=keep), everything=True
        ):
            await self._hooks.event("PostCompact", {"trigger": "manual", "compact_summary": self.context.summary})
        return done

    def forget(self) -> None:
        """Clear what tools remember of the conversation: the to-do list, which files were read."""
        self._memory = {ALLOW_PRIVATE: self.configuration.settings.web_fetch_private}

    async def move_to(self, transcript: Transcript) -> None:
        """Continue with another conversation. No turn may be running."""
        old, self.transcript = self.transcript, transcript
        self._id = transcript.header.id
        self._trees = False
        self.context = self._new_context()
        self.spent, self._budget = Totals.of(transcript.spent()), None
        self.forget()
        self.permissions.rebuild()
        old.close()

    def history(self) -> list[Event]:

        return replay(self.transcript.records, self.transcript.image_file)

    async def menu(self, asking: bool = False) -> ModelMenu:
        from treadle.agent.offered_models import menu_of

        current = self.model or f"{self.provider.name}:{self.provider.model}"
        return await menu_of(current, self.spec.cwd, self.configuration, self.provider if asking else None)

    async def _close(self) -> None:
        await self._hooks.over()
        await self.tasks.stop_all()
        await self.toolbox.close()
        await self.confining.sealing.settle()  # what a background task has committed since the last turn
        for provider in self._owned:
            await provider.aclose()
        self.transcript.close()
        self.confining.close()

    # What the host of a session and its commands may say, or ask, after it was opened

    def add_rule(self, verdict: str, rule: str) -> None:
        """Add a permission rule for the rest of this session."""
        rules = self.spec.rules
        rules = msgspec.structs.replace(rules, **{verdict: (*getattr(rules, verdict), rule)})
        spec = msgspec.structs.replace(self.spec, rules=rules)
        self.permissions.rebuild(msgspec.structs.replace(self.configuration, spec=spec))  # refuses an invalid rule
        self.spec, self.configuration = spec, self.permissions.configuration

    def adapt(self, *, instructions: Instructions | None = None, subagents: tuple[Subagent, ...] = ()) -> None:
        instructed, every = instructions or self.spec.instructions, (*self.spec.subagents, *subagents)
        self.spec = msgspec.structs.replace(self.spec, instructions=instructed, subagents=every)
        self.read_project()

    async def add_tools(self, tools: tuple[OwnTool, ...]) -> None:
        self.toolbox.add_own(tools)

    def context_parts(self) -> list[tuple[str, int]]:
        tools = msgspec.json.encode(self._schemas())
        return [
            ("System prompt", len(self.system().encode()) // 4),
            ("Tools", len(tools) // 4),
            ("Messages", sum(map(estimate, self.context.messages))),
        ]

    def reserve_tool(self, name: str, *, there: bool) -> Callable[[dict[str, Any]], Awaitable[str]]:
        return self.toolbox.reserve(name, there=there)

    async def switch_server(self, name: str, *, on: bool) -> None:
        await self.toolbox.switch(name, on=on)

    async def set_servers(self, servers: dict[str, Any]) -> ServersChanged:
        return await self.toolbox.set_servers(servers)

    def restore_files(self, turn: str) -> list[str]:
        return [*self.transcript.restore_files(turn, self._restore_trees).changed]

    def _restore_trees(self, turns: Sequence[TurnTrees]) -> Restored:
        return self.trees.restore(turns)

    async def rewind(self, turn: str, *, restore_files: bool = True) -> Restored:
        """Go back to before `turn`, which must not be running."""
        go = partial(self.transcript.rewind, turn, self._restore_trees, restore_files=restore_files)
        done = await asyncio.to_thread(go)
        self.context.reload()
        return done

    def every_rule(self) -> list[tuple[str, str]]:
        rules = msgspec.structs.asdict(self.permissions.rules)
        return [(verdict, rule) for verdict, some in rules.items() for rule in some]

    def place(self) -> str:
        return self.spec.cwd

    def may_read(self, path: str) -> bool:
        there = (os.path.realpath(path),)
        return self.permissions.guard(Access(tool="read_file", kind="read", paths=there)).verdict == "allow"

    def earlier_usage(self) -> list[Usage]:
        return self.transcript.spent()

    def begin_prompt(self) -> None:
        self._prompt_id = str(uuid4())

    def watch_hooks(self, watch: Callable[[HookStep], None]) -> None:
        self._hooks.watch(watch)

    def hook_facts(self) -> dict[str, Any]:
        return self._hooks.described

    async def _configure(self, change: Change) -> None:
        if change.model is not None:
            await self._switch_model(change.model)
        if change.mode is not None:
            if change.mode == "yolo":
                self.configuration.settings.check_bypass()
            self.permissions.set_mode(change.mode)
        if change.thinking is not None:
            self.spec = msgspec.structs.replace(self.spec, thinking=change.thinking)

    async def _switch_model(self, model: str) -> None:
        provider = self.configuration.provider(model)
        payload: dict[str, Any] = {
            "from_model": self.provider.model,
            "to_model": provider.model,
            "requested_model": model,
        }
        payload |= {"source": "sdk", "context_tokens": self.context.tokens()}
        verdict = await self._hooks.event("PreModelSwitch", payload)
        if verdict.decision == "deny":
            await provider.aclose()
            raise Denied(f"the model stays {self.provider.model}, because a hook forbids the change: {verdict.reason}")
        if self.weak is self.provider:
            self.weak = provider
        self.provider = provider
        self.context.resize(self.configuration.window(provider))
        self._owned.append(provider)  # the old one may still serve a background task: all are closed at the end
        self.model = model
        self.transcript.append(Switched(model=model))
        await self._hooks.event("PostModelSwitch", payload)

    async def expanding(self, name: str, args: str, kind: str) -> None:
        """Before a command of the project, or a skill, becomes a prompt; raises Denied if a hook is against it."""
        payload = {
            "expansion_type": "slash_command",
            "command_name": name,
            "command_args": args,
            "command_source": kind,
        }
        verdict = await self._hooks.event("UserPromptExpansion", {**payload, "prompt": f"/{name} {args}".rstrip()})
        if verdict.decision == "deny":
            raise Denied(f"a hook forbids /{name}: {verdict.reason}")

    def say_unused(self, name: str, reading: Reading) -> None:
        """What of the file of a command or a skill is not used. Raises Unsupported if it may forbid something."""
        for refusal in reading.refusals(f"/{name}"):
            raise Unsupported(refusal, hint="remove it from the file to use it here")
        if reading.notice:
            self._warn(f"/{name}: {reading.notice}", "settings")

    async def tell_sources(self) -> None:
        """Tell hooks, once, which instructions of the project and the person the model reads."""
        sources, self._sources = self._sources, []
        *_, top = trust.up_to_top(self.spec.cwd)
        for path, _ in sources:
            own = not path.startswith(f"{top}{os.sep}")
            kind = "User" if own else "Local" if path.endswith(".local.md") else "Project"
            reason = "session_start" if os.path.basename(path).lower() in project.KNOWLEDGE else "include"
            payload = {"file_path": path, "memory_type": kind, "load_reason": reason}
            await self._hooks.event("InstructionsLoaded", payload)

    async def judge(self, instructions: str, question: str, model: str) -> str:
        """What a model says to a hook's question; `model` empty: the session's for small things."""
        from treadle.agent.loop import answered  # imported here because few hooks are questions

        provider = self.weak
        if model:
            provider = next((one for one in self._owned if one.model == model), None) or self.configuration.provider(
                model
            )
            if provider not in self._owned:
                self._owned.append(provider)
        request = ModelRequest(system=instructions, messages=(UserMessage(text=question),))
        return await answered(provider, self.note, self._spending(), request)

    async def stop_turn(self, reason: str) -> None:
        """End the turn that runs, if one does."""
        if self._current is not None:
            await self.interrupt(self._current.id, reason)

    def asked_now(self) -> dict[str, Any]:
        """The prompt that is being worked on, by a stable id, and how hard the model is to think: medium, where it was
        not said, as in Claude Code."""
        payload: dict[str, Any] = {"effort": {"level": self.spec.thinking.effort or "medium"}}
        running = [task for task in self.tasks.list() if task.status not in FINISHED]
        payload["background_tasks"] = [
            {"id": task.id, "type": "subagent" if task.kind == "agent" else "shell", "status": task.status}
            | {"description": task.label}
            for task in running
        ]
        payload["session_crons"] = []
        if self._current is not None and not self._prompt_id:
            self._last_prompt = str(uuid5(NAMESPACE_OID, f"{self.id}/{self._current.id}"))
        if prompt := self._prompt_id or self._last_prompt:
            payload["prompt_id"] = prompt
        return payload

    def _tell_withheld(self, event: Event) -> None:
        """When the first command runs: which variables of the caller it does not see."""
        if self._withheld and type(event) is CommandRun:
            names, self._withheld = ", ".join(self._withheld), []
            hint = "name one in `env` of the settings to pass it on"
            warning = f"commands do not see what looks like a secret: {names} ({hint})"
            self.emit(Warned(message=warning, code="environment"))
