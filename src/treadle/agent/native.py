"""The native agent as an Agent and a Session: everything that one of its conversations has, put together."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from treadle import __version__
from treadle.agent import prompt as prompts
from treadle.agent.budget import Budget
from treadle.agent.context import Context
from treadle.agent.loop import Loop, NoHooks, Parts
from treadle.agent.messages import UserMessage
from treadle.agent.providers.base import Provider
from treadle.agent.providers.names import resolve as resolve_model
from treadle.agent.repeats import Repeats
from treadle.agent.tasks import AgentType, Tasks
from treadle.agent.tools import registry
from treadle.agent.tools.base import AnyTool, ToolContext, writing_freely
from treadle.agent.tools.paths import resolve as resolve_path
from treadle.agent.transcript import Spent, Transcript, TurnBegan, TurnOver, find_session
from treadle.events import Asked, Event, Task, TurnEnded, Usage
from treadle.policy.profile import Profile, build_guard
from treadle.session import Access, AgentInfo, Answer, Change, Decision, SessionSpec
from treadle.work.fold import Totals
from treadle.work.session import BaseSession, Turn, new_id

CAPABILITIES: Mapping[str, Any] = {
    name: "native"
    for name in "streaming thinking tools steer interrupt questions resume fork usage cost tasks commands".split()
}


class NativeAgent:
    name = "native"

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if env is None else env

    async def probe(self) -> AgentInfo:
        return AgentInfo(name=self.name, version=__version__, tools=registry.BUILTIN, capabilities=dict(CAPABILITIES))

    async def open(self, spec: SessionSpec) -> NativeSession:
        env = {**self._env, **spec.env}
        old = Transcript.read(find_session(spec.resume, spec.cwd)) if spec.resume is not None else None
        model = spec.model or (old.header.model if old else None)
        provider = resolve_model(model, env)
        transcript = _transcript(spec, old, model or provider.model)
        try:
            return NativeSession(spec, transcript, provider, env)
        except BaseException:
            transcript.close()
            raise


def _transcript(spec: SessionSpec, old: Transcript | None, model: str) -> Transcript:
    if old is not None and not spec.fork:
        return Transcript.open(old.header.id)
    return Transcript.create(
        cwd=spec.cwd, model=model, session_id=spec.session_id, name=spec.name, persist=spec.persist, forked=old
    )


class NativeSession(BaseSession):
    def __init__(
        self,
        spec: SessionSpec,
        transcript: Transcript,
        provider: Provider,
        env: Mapping[str, str],
        *,
        parent: NativeSession | None = None,
        task: str | None = None,
    ) -> None:
        tools = registry.builtin(spec.tools, spec.denied_tools)
        info = AgentInfo(
            name=NativeAgent.name,
            version=__version__,
            models=(provider.model,),
            tools=tools.names,
            capabilities=dict(CAPABILITIES),
        )
        super().__init__(transcript.header.id, info, answers=spec.answers)
        self.spec = spec
        self.transcript = transcript
        self.provider = provider
        self.tools = tools
        self.mode = spec.mode
        self.context = Context(transcript, self._note, window=provider.context_window)
        self.spent = Totals()
        for usage in transcript.spent():
            self.spent = self.spent.plus(usage)
        self.tasks = Tasks(
            session_id=self.id,
            emit=self._note,
            open_child=self._open_child,
            finished=self._task_finished,
            directory=partial(self.transcript.folder, "output"),
            cwd=spec.cwd,
        )
        self._env = env
        self._parent = parent
        self._task = task
        self._loop: Loop | None = None
        self._memory: dict[str, Any] = {}
        self._hooks = NoHooks()
        self._guard = self._build_guard()

    def _build_guard(self) -> Profile:
        spec = self.spec
        return build_guard(spec.cwd, spec.rules, self.mode, spec.add_dirs, spec.guard)

    # A turn

    async def _turn(self, turn: Turn) -> TurnEnded:
        self.transcript.append(TurnBegan(turn=turn.id, prompt=turn.prompt.text, ts=self._clock()))
        outcome = "interrupted"
        try:
            ended = await self._work(turn, turn.prompt.text)
            outcome = ended.outcome
            return ended
        except asyncio.CancelledError:
            raise
        except BaseException:
            outcome = "failed"
            raise
        finally:
            self._loop = None
            self.transcript.append(TurnOver(turn=turn.id, outcome=outcome, ts=self._clock()), sync=True)

    async def _work(self, turn: Turn, text: str) -> TurnEnded:
        self._loop = Loop(turn, self._parts(turn))
        ended = await self._loop.run(UserMessage(text=text))
        if self.mode == "plan" and ended.outcome == "completed" and await self._plan_approved(ended.text):
            self.mode = "auto-edit"
            self._guard = self._build_guard()
            return await self._work(turn, "The plan is approved. Carry it out now.")
        return ended

    async def _plan_approved(self, plan: str) -> bool:
        asked = Asked(request=new_id("ask"), kind="plan", text=plan, deadline=self.deadline())
        if not self._answers:
            self.emit(asked)
            return False
        return (await self.ask(asked)).decision == "allow"

    def _parts(self, turn: Turn) -> Parts:
        return Parts(
            provider=self.provider,
            weak=self.provider,
            system=self._system(),
            tools=self.tools,
            schemas=self.tools.schemas(),
            context=self.context,
            budget=Budget(self.spec.limits),
            repeats=Repeats(self.spec.limits.repeats),
            hooks=self._hooks,
            permit=self._permit,
            tool_context=partial(self._tool_context, turn),
            spent=lambda: self.spent,
            emit=self._note,
            room=self.room,
        )

    def _system(self) -> str:
        return prompts.build(
            cwd=self.spec.cwd,
            mode=self.mode,
            persona=self.spec.system_prompt,
            append=self.spec.append_system_prompt,
        )

    def _note(self, event: Event) -> None:
        """Emit, and keep what counts over the whole session."""
        if isinstance(event, Usage):
            self.spent = self.spent.plus(event)
            self.transcript.append(Spent(usage=event))
        self.emit(event)

    # Tools

    def _tool_context(self, turn: Turn, call: str) -> ToolContext:
        cwd = Path(self.spec.cwd)
        return ToolContext(
            cwd=cwd,
            call=call,
            emit=self._note,
            ask=partial(self._question, call),
            env=dict(self._env),
            backup=lambda path: self.transcript.back_up(turn.id, str(path)),
            overflow=self._overflow,
            writing=self.spec.writing or writing_freely,
            background=self.tasks,
            state=self._memory,
            resolve=partial(resolve_path, cwd),
            hidden=self._guard.hides,
        )

    def _overflow(self, call: str, text: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call)[-80:] + ".txt"
        return Path(self.transcript.keep("output", name, text.encode(errors="replace")))

    async def _question(self, call: str, text: str, options: tuple[str, ...]) -> Answer:
        return await self.ask(
            Asked(
                request=new_id("ask"), kind="question", text=text, options=options, call=call, deadline=self.deadline()
            )
        )

    async def ask(self, asked: Asked) -> Answer:
        """A subagent's questions are its parent's: there the people are."""
        if self._parent is not None:
            return await self._parent.ask(msgspec.structs.replace(asked, parent=self._task))
        return await super().ask(asked)

    async def _permit(self, call: str, tool: AnyTool, args: Any, access: Access) -> tuple[Decision, Any]:
        decision = self._guard(access)
        if decision.verdict != "ask":
            return decision, args
        if not (self._parent or self)._answers:
            return msgspec.structs.replace(decision, verdict="deny", by="nobody"), args
        answer = await self.ask(
            Asked(
                request=new_id("ask"),
                kind="permission",
                text=decision.reason,
                call=call,
                name=tool.name,
                args=msgspec.to_builtins(args),
                tool_kind=access.kind,
                paths=access.paths,
                command=access.command,
                deadline=self.deadline(),
            )
        )
        if answer.decision == "deny":
            return Decision(
                verdict="deny",
                reason=answer.text or "User denied",
                by="deadline" if answer.by == "deadline" else "person",
            ), args
        if answer.changed_args is not None:
            args = registry.decode(tool, msgspec.json.encode(answer.changed_args).decode())
            changed = self._guard(tool.access(args, partial(resolve_path, Path(self.spec.cwd))))
            if changed.verdict == "deny":
                return changed, args
        elif answer.scope != "once":
            self._guard.remember(access, answer.scope)
        return Decision(verdict="allow", reason=f"allowed by {answer.by}", by="person"), args

    # Tasks

    async def _open_child(self, task_id: str, kind: AgentType, task: Task) -> NativeSession:
        tools = kind.tools if kind.tools is not None else tuple(self.tools.names)
        spec = msgspec.structs.replace(
            self.spec,
            cwd=task.cwd,
            tools=tuple(name for name in tools if name != "task" and name in self.tools),
            append_system_prompt=kind.prompt,
            resume=None,
            fork=False,
            session_id=None,
            persist=False,
        )
        transcript = Transcript.create(cwd=task.cwd, model=self.transcript.header.model, persist=False)
        return NativeSession(spec, transcript, self.provider, self._env, parent=self, task=task_id)

    def _task_finished(self, task: Task) -> None:
        """The agent hears of it at its next step, when it is at work."""
        if self._current is not None:
            said = task.output or (task.error.message if task.error else f"exit code {task.exit_code}")
            self._current.steering.append(f"[background task {task.id} ({task.label}) {task.status}]\n{said}")

    def rewind(self, turn: str, *, restore_files: bool = True) -> list[str]:
        """Go back to before `turn`, which must not be running; gives the files restored or removed."""
        changed = self.transcript.rewind(turn, restore_files=restore_files)
        self.context.reload()
        return changed

    # The rest of the contract

    async def _interrupt_other(self, target: str, reason: str) -> None:
        if self._loop is not None and target in self._loop.running:
            self._loop.running[target].cancel()
        elif any(task.id == target for task in self.tasks.list()):
            await self.tasks.stop(target)

    async def configure(self, change: Change) -> None:
        if change.model is not None:
            provider = resolve_model(change.model, self._env)
            old, self.provider = self.provider, provider
            if self._parent is None:
                await old.aclose()
        if change.mode is not None:
            self.mode = change.mode
            self._guard = self._build_guard()

    async def _close(self) -> None:
        await self.tasks.stop_all()
        if self._parent is None:
            await self.provider.aclose()
        self.transcript.close()
