"""Hooks: commands from the settings that run before and after tool calls and at the end of a turn.

A hook reads one JSON object on its stdin. Exit 0 is consent; exit 2 blocks the call, with stderr as the reason; any
other exit code, or a timeout, is only a warning. What a post_tool hook prints is added to the result that the model
reads. A hook runs in its own process tree, and what it leaves behind ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import TreadleError
from treadle.session import Access, Confinement, Rules
from treadle.settings.config import Hook, HookSettings

if TYPE_CHECKING:
    from treadle.io.process.consulted import Consulted

BLOCK = 2


class ShellHooks:
    """What the loop calls. Pass it hooks from trusted settings only."""

    def __init__(
        self,
        hooks: HookSettings,
        *,
        cwd: str,
        env: Mapping[str, str],
        session: str,
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None] = lambda: None,
    ) -> None:
        self._confinement = confinement
        self._cwd = cwd
        self._env = env
        self._session = session
        self._warn = warn
        self._pre, self._post, self._end = (
            [(hook, _matcher(hook, cwd)) for hook in some] for some in (hooks.pre_tool, hooks.post_tool, hooks.turn_end)
        )

    @property
    def judging(self) -> bool:
        return bool(self._pre or self._post)

    async def pre_tool(self, name: str, args: Any, access: Access) -> str | None:
        """A reason to block the call, or None."""
        for hook, matches in self._pre:
            if matches(access):
                ran = await self._run(hook, "pre_tool", _call(name, args, access))
                if ran.exit_code == BLOCK:
                    return ran.stderr.strip() or f"blocked by the hook {hook.command}"
        return None

    async def post_tool(self, name: str, args: Any, access: Access, result: str, ok: bool) -> str:
        """Text to add to the result, or nothing."""
        added = ""
        for hook, matches in self._post:
            if matches(access):
                payload = {**_call(name, args, access), "result": result, "ok": ok}
                ran = await self._run(hook, "post_tool", payload)
                text = ran.stderr if ran.exit_code == BLOCK else ran.stdout
                added += f"\n{text.rstrip()}" if text.strip() else ""
        return added

    async def turn_end(self, outcome: str, text: str) -> None:
        for hook, _ in self._end:
            await self._run(hook, "turn_end", {"outcome": outcome, "text": text})

    async def _run(self, hook: Hook, event: str, payload: dict[str, Any]) -> Consulted:
        from treadle.io.process.consulted import Consulted, consult  # imported here because few sessions have hooks
        from treadle.io.sandbox.start import start

        message = {"event": event, "session_id": self._session, "cwd": self._cwd, **payload}
        env = {**self._env, "TREADLE_HOOK_EVENT": event, "TREADLE_SESSION_ID": self._session}
        try:
            argv = ["/bin/sh", "-c", hook.command]
            child = await start(self._confinement(), argv, env=env, cwd=self._cwd, stdin="pipe", stdout="pipe")
            async with child:
                ran = await consult(child, msgspec.json.encode(message), hook.timeout)
        except TreadleError as error:
            self._warn(f"the {event} hook {hook.command!r} could not run: {error}")
            return Consulted(exit_code=None)
        if ran.exit_code is None:
            self._warn(f"the {event} hook {hook.command!r} was stopped: it took more than {hook.timeout:g} s")
        elif ran.exit_code not in (0, BLOCK):
            detail = f": {ran.stderr.strip()}" if ran.stderr.strip() else ""
            self._warn(f"the {event} hook {hook.command!r} failed with exit code {ran.exit_code}{detail}")
            return Consulted(exit_code=ran.exit_code)
        return ran


def _matcher(hook: Hook, cwd: str) -> Callable[[Access], bool]:
    from treadle.io.disk import DISK
    from treadle.policy.rules import RuleSet

    rules = RuleSet(Rules(deny=(hook.matcher,)), cwd, DISK)
    return lambda access: rules.judge(access) is not None


def _call(name: str, args: Any, access: Access) -> dict[str, Any]:
    return {
        "tool": name,
        "args": args,
        "kind": access.kind,
        "paths": access.paths,
        "command": access.command,
        "url": access.url,
    }
