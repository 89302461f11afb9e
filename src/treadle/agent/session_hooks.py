"""All hooks of one native session (those of its program, of settings in Claude Code's form, and of our own settings),
and the project's fast checker after an edit.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.agent.event_hooks import EventHooks, Judge
from treadle.agent.hooks import ShellHooks
from treadle.agent.program import ProgramHooks
from treadle.agent.transcript import Transcript
from treadle.errors import TreadleError
from treadle.io.files import read_ends
from treadle.session import Access, Confinement, Mode, OwnProgram
from treadle.settings.config import HookSettings
from treadle.wire.oneshot.records import mode_name

if TYPE_CHECKING:
    from treadle.agent.hooks import HookStep


# After an edit: what a fast checker says of it, if the project uses one that is installed here.
#
# It runs like a command of the agent, confined as these are, and has little time: one that takes longer is not run
# again in this session. Nothing is installed, and nothing of the project is run to find out.

SECONDS = 5.0
NOT_RUN = (126, 127)
"""Exit codes of a shell, a sandbox and `env` for a program that cannot be run, for one because it is hidden there."""
LINES, LINE = 30, 300
"""How much of what a checker says is shown."""


class Checker(msgspec.Struct, frozen=True, kw_only=True):
    """`signs`: a file in the working directory that shows that the project uses it, with words that must be in it."""

    argv: tuple[str, ...]
    endings: tuple[str, ...]
    signs: tuple[tuple[str, str], ...]
    by_file: bool = False
    """Whether it takes the changed files as arguments; if not, it looks at everything."""
    runs_code: bool = False
    """Whether it runs the project's own code, and so needs a sandbox."""
    own: str = ""
    """Where a project has one of its own, which is run in a sandbox only, and then rather than the one on PATH."""


CHECKERS = (
    Checker(
        argv=("ruff", "check", "--quiet", "--no-fix", "--force-exclude", "--output-format=concise", "--"),
        endings=(".py", ".pyi"),
        signs=(("ruff.toml", ""), (".ruff.toml", ""), ("pyproject.toml", "[tool.ruff")),
        by_file=True,
    ),
    Checker(
        argv=("tsc", "--noEmit", "--pretty", "false"),
        endings=(".ts", ".tsx", ".mts", ".cts"),
        signs=(("tsconfig.json", ""),),
        own="node_modules/.bin/tsc",
    ),
    Checker(
        argv=("cargo", "check", "--quiet", "--message-format=short"),
        endings=(".rs",),
        signs=(("Cargo.toml", ""),),
        runs_code=True,
    ),
)


class Diagnostics:
    def __init__(
        self,
        *,
        cwd: str,
        env: Mapping[str, str],
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None] = lambda: None,
    ) -> None:
        self._cwd = cwd
        self._env = env
        self._warn = warn
        self._confinement = confinement
        self._given_up: set[str] = set()

    async def after(self, access: Access) -> str:
        """What checkers have to say after a tool has written these paths; mostly nothing."""
        findings = [await self._ask(one, access.paths) for one in CHECKERS] if access.kind == "write" else []
        return "".join(f"\n{text}" for text in findings if text)

    async def _ask(self, checker: Checker, paths: tuple[str, ...]) -> str:
        name = checker.argv[0]
        changed = [path for path in paths if path.endswith(checker.endings) and os.path.isfile(path)]
        if not changed or name in self._given_up or not self._used(checker):
            return ""
        confinement = self._confinement()
        program = self._program(checker, confined=confinement is not None)
        if program is None:
            return ""
        argv = [program, *checker.argv[1:], *(changed if checker.by_file else [])]
        output = await self._run(name, argv, confinement)
        lines = [line[:LINE] for line in output.splitlines()]
        more = [f"[{len(lines) - LINES} more lines]"] if len(lines) > LINES else []
        return "\n".join([f"[{name} says:]", *lines[:LINES], *more]) if lines else ""

    def _program(self, checker: Checker, *, confined: bool) -> str | None:
        from shutil import which  # imported here because few sessions come this far

        own = os.path.join(self._cwd, checker.own)
        if checker.own and confined and os.access(own, os.X_OK):
            return own
        if checker.runs_code and not confined:
            return None
        return which(checker.argv[0], path=self._env.get("PATH"))

    async def _run(self, name: str, argv: list[str], confinement: Confinement | None) -> str:
        from treadle.io.process.child import consult
        from treadle.io.sandbox.start import start

        try:
            child = await start(confinement, argv, env=dict(self._env), cwd=self._cwd, stdin="pipe", stderr="stdout")
            async with child:
                ran = await consult(child, b"", SECONDS)
        except TreadleError as error:
            self._give_up(name, str(error))
            return ""
        if ran.exit_code is None:
            self._give_up(name, f"it took more than {SECONDS:g} s")
            return ""
        if ran.exit_code in NOT_RUN:
            self._give_up(name, ran.stdout.strip() or f"it ended with exit code {ran.exit_code}")
            return ""
        return ran.stdout.strip() if ran.exit_code else ""

    def _give_up(self, name: str, why: str) -> None:
        self._given_up.add(name)
        self._warn(f"{name} is not asked after edits any more in this session: {why}")

    def _used(self, checker: Checker) -> bool:
        for sign, words in checker.signs:
            path = os.path.join(self._cwd, sign)
            if os.path.isfile(path) and (not words or _has(path, words)):
                return True
        return False


def _has(path: str, words: str) -> bool:
    try:
        return words.encode() in read_ends(path, 256 * 1024)
    except TreadleError:
        return False


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
