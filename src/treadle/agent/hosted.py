"""What the host of a native session may say, or ask, after the session was opened."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import msgspec

from treadle.agent import project
from treadle.agent.configuration import Configuration
from treadle.agent.context import Context, estimate
from treadle.agent.mcp import ServersChanged
from treadle.agent.messages import ModelRequest, ToolSchema, UserMessage
from treadle.agent.permissions import Permissions
from treadle.agent.providers.base import Provider
from treadle.agent.session_hooks import SessionHooks
from treadle.agent.tasks import Tasks
from treadle.agent.toolbox import Toolbox
from treadle.agent.transcript import Switched, Transcript
from treadle.errors import Denied
from treadle.events import FINISHED, CommandRun, Event, Usage, Warned
from treadle.session import Access, Change, Instructions, OwnTool, SessionSpec, Subagent
from treadle.sessions.session import BaseSession
from treadle.settings import trust

if TYPE_CHECKING:
    from treadle.agent.hooks import HookStep


class HostedSession(BaseSession):
    """The part of a native session that `doors` and commands use beyond the contract of a session."""

    spec: SessionSpec
    configuration: Configuration
    transcript: Transcript
    context: Context
    toolbox: Toolbox
    tasks: Tasks
    permissions: Permissions
    provider: Provider
    weak: Provider
    model: str | None
    _owned: list[Provider]
    _hooks: SessionHooks
    _sources: list[tuple[str, str]] = []
    """The instructions that the model reads, until hooks were told of them."""
    _withheld: list[str]
    """Variables of the caller that commands do not see, until a warning names them."""
    _prompt_id = ""
    """What hooks are told of the last prompt, where the host has said when one begins."""

    @abstractmethod
    def read_project(self) -> None: ...

    @abstractmethod
    def note(self, event: Event) -> None: ...

    @abstractmethod
    def system(self) -> str: ...

    @abstractmethod
    def _schemas(self) -> tuple[ToolSchema, ...]: ...

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
        return self.transcript.restore_files(turn)

    def rewind(self, turn: str, *, restore_files: bool = True) -> list[str]:
        """Go back to before `turn`, which must not be running. Returns the files restored or removed."""
        changed = self.transcript.rewind(turn, restore_files=restore_files)
        self.context.reload()
        return changed

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
            raise Denied(f"the model stays {self.provider.model}, because a hook is against another: {verdict.reason}")
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
            raise Denied(f"a hook is against /{name}: {verdict.reason}")

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

    async def tell_failure(self, text: str) -> None:
        await self._hooks.event("StopFailure", {"error": "unknown", "last_assistant_message": text})

    def for_hooks(self) -> dict[str, Any]:
        return {"judge": self.judge, "stop_turn": self.stop_turn, "about": self.asked_now}

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
        return await answered(provider, self.note, request)

    async def stop_turn(self, reason: str) -> None:
        """End the turn that runs, if one does."""
        if self._current is not None:
            await self.interrupt(self._current.id, reason)

    def asked_now(self) -> dict[str, Any]:
        """The prompt that is being worked on, by a stable id, and how hard the model is to think, if that was given."""
        effort = self.spec.thinking.effort
        payload: dict[str, Any] = {"effort": {"level": effort}} if effort else {}
        running = [task for task in self.tasks.list() if task.status not in FINISHED]
        payload["background_tasks"] = [
            {"id": task.id, "type": "subagent" if task.kind == "agent" else "shell", "status": task.status}
            | {"description": task.label}
            for task in running
        ]
        payload["session_crons"] = []
        if self._prompt_id:
            payload["prompt_id"] = self._prompt_id
        elif self._current is not None:
            payload["prompt_id"] = str(uuid5(NAMESPACE_OID, f"{self.id}/{self._current.id}"))
        return payload

    def _tell_withheld(self, event: Event) -> None:
        """When the first command runs: which variables of the caller it does not see."""
        if self._withheld and type(event) is CommandRun:
            names, self._withheld = ", ".join(self._withheld), []
            hint = "name one in `env` of the settings to pass it on"
            warning = f"commands do not see what looks like a secret: {names} ({hint})"
            self.emit(Warned(message=warning, code="environment"))
