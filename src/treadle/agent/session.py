"""One conversation of the native agent, assembled from all its parts."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from treadle import __version__
from treadle.agent import project
from treadle.agent import prompt as prompts
from treadle.agent.budget import TurnBudget
from treadle.agent.configuration import Configuration
from treadle.agent.confining import Confining
from treadle.agent.context import Context
from treadle.agent.families import WORDS, EditFormat, suited
from treadle.agent.hosted import HostedSession
from treadle.agent.messages import ToolSchema, UserMessage
from treadle.agent.overview import for_prompt
from treadle.agent.permissions import Permissions
from treadle.agent.providers.base import Preparing, Provider
from treadle.agent.records import Cleared, Spent, TurnBegan, TurnOver
from treadle.agent.session_hooks import SessionHooks
from treadle.agent.small.profile import small_tools
from treadle.agent.subagents import AgentType, child_spec, kinds
from treadle.agent.task_groups import Groups
from treadle.agent.tasks import Tasks
from treadle.agent.toolbox import Toolbox
from treadle.agent.tools.base import ALLOW_PRIVATE, DEFERRED, FOUND, AnyTool, ToolContext, writing_freely
from treadle.agent.tools.paths import Resolved
from treadle.agent.tools.registry import Registry
from treadle.agent.transcript import Transcript
from treadle.events import Asked, CommandRun, Event, FileChanged, Task, TurnEnded, Usage, Warned
from treadle.session import AgentInfo, Answer, CommandInfo, CommandResult, Mode, ModelMenu
from treadle.sessions.abilities import ABILITIES
from treadle.sessions.session import Turn, new_id
from treadle.sessions.totals import Totals
from treadle.settings import trust
from treadle.settings.config import HookSettings

if TYPE_CHECKING:
    from treadle.agent.loop import Parts, TurnLoop

NAME = "native"
IDLE = 0.02
"""After this many idle seconds from the start, there is time to load what a turn needs."""
GOES_ON = 8  # how often in a turn a hook may make the agent continue when it is done
CAPABILITIES: Mapping[str, Any] = dict.fromkeys((*ABILITIES, "guards"), "native")


class NativeSession(HostedSession):
    takes_documents = True

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
        self.configuration = configuration
        self.spec = spec
        self.transcript = transcript
        self.provider = provider
        self.weak = configuration.provider(settings.weak_model) if settings.weak_model else provider
        self.context = self._new_context()
        self.spent = Totals.of(transcript.spent())
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
            checks=configuration.checks_edits,
            **self.for_hooks(),
            **started,
        )
        self.toolbox = Toolbox(configuration, usual=small_tools(provider), edits=self._edits, **started)
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
        return kinds((*self._agents, *self.spec.subagents))

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
            self.emit(Warned(message=f"{lost} lines of this session's history cannot be read", code="history"))
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
        seen = for_prompt(self.configuration, self.provider, self.permissions.guard.hides)
        self._sources = project.knowledge_parts(self.spec.cwd, instructions)
        words = "\n\n".join(f"# {path}\n\n{text}" for path, text in self._sources)
        self._knowledge = "\n\n".join(filter(None, (seen, words)))
        self._skills = project.skills(self.spec.cwd, instructions) if "skill" in self.tools else []
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
        """Directories that may be read wherever they are: kept output of tools, and skills."""
        return [*self.transcript.outputs, *(os.path.dirname(skill.path) for skill in self._skills)]

    def _warn(self, message: str, code: str = "") -> None:
        self.emit(Warned(message=message, code=code))

    # A turn

    async def _turn(self, turn: Turn) -> TurnEnded:
        self.transcript.append(TurnBegan(turn=turn.id, prompt=turn.prompt.text, ts=self._clock()))
        outcome = "interrupted"
        try:
            budget = TurnBudget(self.configuration.limits, priced=lambda: self.provider.priced)
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
        except BaseException:
            outcome = "failed"
            raise
        finally:
            self._loop = None
            try:
                await self.confining.finish(self._about_git)
                await self._hooks.turn_end(outcome, turn.text)
                if outcome == "failed" and self._parent is None:
                    await self.tell_failure(turn.text)
            finally:  # the turn may be interrupted while the hook runs
                over = TurnOver(turn=turn.id, outcome=outcome, ts=self._clock(), listing=self.transcript.listing)
                self.transcript.append(over, sync=True)
                if self.configuration.entrypoint and self._parent is None and self.spec.start.persist:
                    _ = self._hooks.transcript_path  # where the SDK that drives us lists and reads sessions

    async def _prompt(self, turn: Turn) -> UserMessage:
        """What was asked, with its images, and the mentioned files that the model could read itself."""
        given = turn.prompt
        mentions = "@" in given.text and self._parent is None and not given.verbatim and "read_file" in self.tools
        if not mentions and not given.images and not given.documents:
            return UserMessage(text=given.text)
        from treadle.agent.mentions import with_all

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

    def _parts(self, turn: Turn, budget: TurnBudget) -> Parts:
        from treadle.agent.loop import Parts
        from treadle.agent.repeats import Repeats

        return Parts(
            provider=self.provider,
            weak=self.weak,
            system=self.system(),
            tools=self.tools,
            schemas=self._schemas,
            thinking=self.spec.thinking,
            cache_key=(self._parent or self).id,
            context=self.context,
            budget=budget,
            repeats=Repeats(self.configuration.limits.repeats),
            hooks=self._hooks,
            permit=self.permissions.permit,
            tool_context=partial(self._tool_context, turn),
            spent=lambda: (self._parent or self).spent,  # a subagent spends from its parent's budget
            emit=self.note,
            room=self.room,
            watching=self.confining.watching(self.spec.guards.watching),
            ready=partial(self.confining.ready, self._about_git),
            settle=partial(self.confining.settle, self._about_git),
            calling=self.spec.guards.calling,
        )

    def _edits(self) -> EditFormat:
        return suited(self.configuration, self.provider, self._hooks.judging)

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
        return prompts.build(
            cwd=self.spec.cwd,
            mode=self.mode,
            persona=self.configuration.persona(self.provider),
            knowledge=self._knowledge,
            skills=project.offer(self._skills),
            append=f"{self._style}\n\n{more}".strip(),
            editing=WORDS.get(self._edits(), prompts.EDITING),
        )

    def note(self, event: Event) -> None:
        """Emit the event, and keep what counts over the whole session."""
        if type(event) is Usage:
            self.spent = self.spent.plus(event)
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
            timeout=self.configuration.settings.timeouts.tool,
            grace=self.configuration.grace,
            state=self._memory,
            resolve=Resolved(cwd),
            hidden=self.permissions.guard.hides,
            confinement=partial(self.confining.announced, self.emit),
            leave=self.confining.leave,
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
        from treadle.agent.commands import registry  # imported here because most sessions never get a command

        return registry.every(self.spec.cwd, self.spec.instructions)

    async def _command(self, name: str, args: str) -> CommandResult | None:
        from treadle.agent.commands import registry

        return await registry.run(self, name, args)

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
            self._warn(f"not compacted, because a hook is against it: {verdict.reason}")
            return False
        if done := await self.context.compact(partial(summarise, self.weak, self.note, keep=keep), everything=True):
            await self._hooks.event("PostCompact", {"trigger": "manual", "compact_summary": self.context.summary})
        return done

    def forget(self) -> None:
        """Clear what tools remember of the conversation: the to-do list, which files were read."""
        self._memory = {ALLOW_PRIVATE: self.configuration.settings.web_fetch_private}

    async def move_to(self, transcript: Transcript) -> None:
        """Continue with another conversation. No turn may be running."""
        old, self.transcript = self.transcript, transcript
        self._id = transcript.header.id
        self.context = self._new_context()
        self.spent = Totals.of(transcript.spent())
        self.forget()
        self.permissions.rebuild()
        old.close()

    def history(self) -> list[Event]:
        from treadle.agent.replay import replay

        return replay(self.transcript.records, self.transcript.image_file)

    async def menu(self) -> ModelMenu:
        from treadle.agent.offering import menu_of

        current, configuration = self.model or f"{self.provider.name}:{self.provider.model}", self.configuration
        return await asyncio.to_thread(menu_of, current, self.spec.cwd, configuration.settings, configuration.env)

    async def _close(self) -> None:
        await self._hooks.over()
        await self.tasks.stop_all()
        await self.toolbox.close()
        await self.confining.sealing.settle()  # what a background task has committed since the last turn
        for provider in self._owned:
            await provider.aclose()
        self.transcript.close()
        self.confining.close()
