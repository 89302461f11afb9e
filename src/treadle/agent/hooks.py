"""Commands that run before and after tool calls and at the end of a turn, as the settings say.

A hook reads one JSON object on its stdin. Exit 0 is consent; exit 2 blocks the call, with stderr as the reason; any
other exit, and a timeout, is a warning and changes nothing. What a post_tool hook prints is added to the result that
the model reads. A hook runs in a process tree of its own and what it leaves behind ends with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import PeerClosed, TreadleError
from treadle.session import Access, Confinement, Rules
from treadle.settings.config import Hook, HookSettings

if TYPE_CHECKING:
    from treadle.io.process.child import Child

OUTPUT_CAP = 24 * 1024
BLOCK = 2


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int | None
    """None when it could not be started or took too long, which was warned about."""
    stdout: str = ""
    stderr: str = ""


class ShellHooks:
    """What the loop calls. Give it hooks from trusted settings only."""

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
                told = {**_call(name, args, access), "result": result, "ok": ok}
                ran = await self._run(hook, "post_tool", told)
                said = ran.stderr if ran.exit_code == BLOCK else ran.stdout
                added += f"\n{said.rstrip()}" if said.strip() else ""
        return added

    async def turn_end(self, outcome: str, text: str) -> None:
        for hook, _ in self._end:
            await self._run(hook, "turn_end", {"outcome": outcome, "text": text})

    async def _run(self, hook: Hook, event: str, told: dict[str, Any]) -> Ran:
        from treadle.io.sandbox.start import start  # few sessions have hooks

        message = {"event": event, "session_id": self._session, "cwd": self._cwd, **told}
        env = {**self._env, "TREADLE_HOOK_EVENT": event, "TREADLE_SESSION_ID": self._session}
        try:
            argv = ["/bin/sh", "-c", hook.command]
            child = await start(self._confinement(), argv, env=env, cwd=self._cwd, stdin="pipe", stdout="pipe")
            async with child:
                ran = await _converse(child, msgspec.json.encode(message), hook.timeout)
        except TreadleError as error:
            self._warn(f"the {event} hook {hook.command!r} could not run: {error}")
            return Ran(exit_code=None)
        if ran.exit_code is None:
            self._warn(f"the {event} hook {hook.command!r} was stopped: it took more than {hook.timeout:g} s")
        elif ran.exit_code not in (0, BLOCK):
            said = f": {ran.stderr.strip()}" if ran.stderr.strip() else ""
            self._warn(f"the {event} hook {hook.command!r} failed with exit code {ran.exit_code}{said}")
            return Ran(exit_code=ran.exit_code)
        return ran


async def _converse(child: Child, message: bytes, timeout: float) -> Ran:
    telling = asyncio.create_task(_tell(child, message))
    hearing = asyncio.create_task(_hear(child))
    code: int | None = None
    try:
        async with asyncio.timeout(timeout):
            code = await child.wait()
    except TimeoutError:
        pass
    finally:
        # It ends what the hook left running too, so that nobody holds its stdout open any more.
        await child.stop(grace=1.0)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
    return Ran(exit_code=code, stdout=await hearing, stderr=await child.last_words())


async def _tell(child: Child, message: bytes) -> None:
    try:
        await child.stdio.write(message + b"\n")
    except PeerClosed:
        pass  # it does not care what happened
    child.stdio.close_write()


async def _hear(child: Child) -> str:
    """The beginning of its stdout; the rest is read, so that it can go on, and forgotten."""
    kept = b""
    while data := await child.stdio.read():
        kept += data[: OUTPUT_CAP - len(kept)]
    return kept.decode(errors="replace")


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
