"""All hooks of one native session: those of its program, of settings in Claude Code's form, and of our own settings."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from treadle.agent.event_hooks import EventHooks, Judge
from treadle.agent.hooks import ShellHooks
from treadle.agent.program import ProgramHooks
from treadle.agent.transcript import Transcript
from treadle.session import Access, Mode, OwnProgram
from treadle.settings.config import HookSettings
from treadle.wire.oneshot.records import mode_name

if TYPE_CHECKING:
    from treadle.agent.diagnostics import Diagnostics
    from treadle.agent.hook_runs import HookStep


class SessionHooks(ProgramHooks):
    def __init__(
        self,
        program: OwnProgram,
        settings: HookSettings,
        transcript: Callable[[], Transcript],
        mode: Callable[[], Mode | None],
        *,
        cwd: str,
        about: Callable[[], dict[str, Any]] = dict,
        agent: tuple[str, str] = ("", ""),
        entrypoint: str = "",
        judge: Judge | None = None,
        stop_turn: Callable[[str], Awaitable[None]] | None = None,
        checks: bool = False,
        **started: Any,
    ) -> None:
        """`about`: what else every hook is told. `entrypoint`: which SDK of Claude drives us, if one does; it looks for
        the history in Claude's own place."""
        self._transcript = transcript
        self._mode = mode
        self._about = about
        self._entrypoint = entrypoint
        described = {"env": started["env"], "described": lambda: self.described, "judge": judge}
        self._own = EventHooks(cwd, settings.events, started["warn"], **described)
        self._own.stop_turn = stop_turn
        others = ShellHooks(settings, session=transcript().header.id, cwd=cwd, **started)
        programs = (program, self._own.program()) if settings.events else (program,)
        super().__init__(programs, others, agent)
        self._diagnostics: Diagnostics | None = None
        if checks:
            from treadle.agent.diagnostics import Diagnostics

            self._diagnostics = Diagnostics(cwd=cwd, **started)

    @property
    def judging(self) -> bool:
        looking = any(map(self._own.hears, ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest")))
        return looking or self._others.judging or bool(self._programs[0].pre_tool or self._programs[0].post_tool)

    @property
    def described(self) -> dict[str, Any]:
        """What every hook in Claude Code's form is told."""
        return {
            "session_id": self._transcript().header.id,
            "transcript_path": self.transcript_path,
            "permission_mode": mode_name(self._mode()),
            **self._about(),
        }

    @property
    def transcript_path(self) -> str:
        """Where the conversation so far is, in Claude Code's line format; it is written when someone asks."""
        from treadle.agent.claude_lines import write_claude_history  # imported here because only hooks and SDKs ask

        return write_claude_history(self._transcript(), self._entrypoint)

    def watch(self, watch: Callable[[HookStep], None]) -> None:
        self._own.watch = watch

    def written(self, own: Transcript) -> str:
        """Where the conversation of this subagent is, beside that of the session which started it."""
        from treadle.agent.claude_lines import claude_path, write_claude_history

        folder = claude_path(self._transcript(), self._entrypoint).removesuffix(".jsonl")
        path = os.path.join(folder, "subagents", f"agent-{self._agent[0]}.jsonl")
        return write_claude_history(own, self._entrypoint, path)

    async def started(self, source: str, model: str = "") -> str:
        return await self._own.started(source, model)

    async def post_tool(
        self, call: str, name: str, args: Any, access: Access, result: str, ok: bool, took: int | None = None
    ) -> str:
        text = await super().post_tool(call, name, args, access, result, ok, took)
        return text + await self._diagnostics.after(access) if self._diagnostics is not None and ok else text

    async def prompted(self, prompt: str) -> tuple[str | None, str]:
        return await self._own.prompted(prompt) if self._own.hears("UserPromptSubmit") else (None, "")

    async def over(self) -> None:
        await self._own.ended("other")
