"""Hooks that may forbid something: callbacks in the host's process, which it names in `initialize` and we call over the
control protocol, and the commands of a settings file (`command_hooks.py`).

A hook may be there to forbid something, so everything fails closed: an event that could forbid and that we cannot call
refuses `initialize`; a callback that fails, or that does not answer in time, blocks the tool call.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from treadle.doors.oneshot.command_hooks import CALLED, ONLY_LOOK, TIMEOUT, CommandHook, run
from treadle.errors import TreadleError, Unsupported
from treadle.session import HookVerdict, OwnProgram, Use
from treadle.wire.oneshot.names import THEIRS

Request = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a control request to the host and returns the response; raises when the host answers with an error."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    matcher: str
    callbacks: tuple[str, ...]
    timeout: float


def matches(matcher: str, tool: str) -> bool:
    """Whether a matcher names a tool, by the host's name or ours; an empty matcher and a star match every tool."""
    if matcher in ("", "*") or not tool:
        return True
    try:
        pattern = re.compile(matcher)
    except re.error:
        return True  # an unreadable matcher must not let a tool slip by
    return any(pattern.fullmatch(name) for name in (tool, THEIRS.get(tool, tool)))


class HostHooks:
    """Pass `program()` to the session when it is opened, and add the host's hooks once they are known."""

    def __init__(
        self, cwd: str, commands: tuple[CommandHook, ...] = (), warn: Callable[[str], None] = lambda message: None
    ) -> None:
        self._cwd = cwd
        self._commands = commands
        self._warn = warn
        self._going_on = False
        """Whether the turn goes on because a Stop hook wanted it."""
        self._request: Request | None = None
        self._stop_turn: Callable[[str], Awaitable[None]] | None = None
        self._hooks: dict[str, list[Registered]] = {}
        self.session = ""

    def program(self) -> OwnProgram:
        return OwnProgram(pre_tool=self._pre_tool, post_tool=self._post_tool, stop=self._stop)

    def connect(self, session: str, request: Request | None, stop_turn: Callable[[str], Awaitable[None]]) -> None:
        self.session, self._request, self._stop_turn = session, request, stop_turn

    def register(self, hooks: Any) -> list[str]:
        """Register the hooks of `initialize`. Returns the events whose hooks are not called; raises if one matters."""
        if not isinstance(hooks, dict):
            raise Unsupported(f"hooks must be an object, not {type(hooks).__name__}")
        found: dict[str, list[Registered]] = {}
        for event, groups in hooks.items():
            if event not in CALLED + ONLY_LOOK:
                raise Unsupported(
                    f"hooks of the event {event!r} are not run here", hint=f"there are {', '.join(CALLED)}"
                )
            found[event] = [_registered(event, group) for group in groups or ()]
        self._hooks = found
        return [event for event in found if event in ONLY_LOOK and found[event]]

    async def prompted(self, prompt: str) -> tuple[str | None, str]:
        """Before a prompt: a reason to refuse it, or None; and text to put in front of it."""
        added = []
        try:
            answers = await self._ask("UserPromptSubmit", "", {"prompt": prompt})
        except TreadleError as error:
            return f"a hook could not be asked: {error}", ""
        for said in answers:
            if (reason := _blocked(said)) is not None:
                return reason, ""
            if isinstance(more := _specific(said).get("additionalContext"), str):
                added.append(more)
        return None, "".join(f"{more}\n\n" for more in added)

    async def _pre_tool(self, use: Use) -> str | HookVerdict | None:
        try:
            answers = await self._ask("PreToolUse", use.tool, _input(use))
        except TreadleError as error:
            return f"a hook could not be asked: {error}"
        decision: Literal["allow", "ask", ""] = ""
        why, changed = "", None
        for said in answers:
            if said.get("continue") is False:
                await self._end_turn(str(said.get("stopReason") or "a hook ended the turn"))
            if (reason := _blocked(said)) is not None:
                return reason
            specific = _specific(said)
            wanted = specific.get("permissionDecision") or said.get("decision")
            if wanted == "ask" or wanted in ("allow", "approve") and not decision:  # the stricter of several
                decision = "ask" if wanted == "ask" else "allow"
                why = str(specific.get("permissionDecisionReason") or said.get("reason") or "")
            if isinstance(specific.get("updatedInput"), dict):
                changed = specific["updatedInput"]
        return HookVerdict(decision=decision, reason=why, args=changed) if decision or changed is not None else None

    async def _post_tool(self, use: Use, result: str, ok: bool) -> str | None:
        told = {**_input(use), "tool_response": result}
        try:
            answers = await self._ask("PostToolUse", use.tool, told)
        except TreadleError as error:
            return f"(a hook could not be asked: {error})"
        added = []
        for said in answers:
            if said.get("continue") is False:
                await self._end_turn(str(said.get("stopReason") or "a hook ended the turn"))
            added += [text for text in (_blocked(said), _specific(said).get("additionalContext")) if text]
        return "\n".join(map(str, added)) or None

    async def _stop(self, outcome: str, text: str) -> str | None:
        """Why the turn must go on, if a hook says so."""
        told = {"stop_hook_active": self._going_on, "last_assistant_message": text}
        reasons = []
        try:
            for said in await self._ask("Stop", "", told):
                if said.get("decision") == "block":
                    reasons.append(str(said.get("reason") or "a hook wants you to go on"))
                elif said.get("continue") is False:
                    reasons.clear()
                    break
        except TreadleError as error:
            self._warn(str(error))  # the turn is over: there is nothing left to forbid
        self._going_on = bool(reasons)
        return "\n".join(reasons) or None

    async def _end_turn(self, reason: str) -> None:
        if self._stop_turn is not None:
            await self._stop_turn(reason)

    async def _ask(self, event: str, tool: str, told: dict[str, Any]) -> list[dict[str, Any]]:
        """Call all matching callbacks, in their order."""
        given = {"session_id": self.session, "transcript_path": "", "cwd": self._cwd, "hook_event_name": event, **told}
        answers = []
        for group in self._hooks.get(event, ()):
            if matches(group.matcher, tool):
                answers += [await self._call(callback, given, group.timeout) for callback in group.callbacks]
        for hook in self._commands:
            if hook.event == event and matches(hook.matcher, tool):
                answers.append(await run(hook, given, self._cwd, self._warn))
        return answers

    async def _call(self, callback: str, given: dict[str, Any], timeout: float) -> dict[str, Any]:
        if self._request is None:
            raise Unsupported("the host is not connected")
        request = {"subtype": "hook_callback", "callback_id": callback, "input": given, "tool_use_id": None}
        try:
            async with asyncio.timeout(timeout):
                return await self._request(request)
        except TimeoutError:
            raise Unsupported(f"it did not answer within {timeout:g} s") from None


def _registered(event: str, group: Any) -> Registered:
    table = group if isinstance(group, dict) else {}
    callbacks = table.get("hookCallbackIds")
    if not isinstance(callbacks, list) or not all(isinstance(one, str) for one in callbacks):
        raise Unsupported(f"a hook of {event} has no list of hookCallbackIds")
    timeout = table.get("timeout")
    return Registered(
        matcher=str(table.get("matcher") or ""),
        callbacks=tuple(callbacks),
        timeout=float(timeout) if isinstance(timeout, int | float) and timeout > 0 else TIMEOUT,
    )


def _input(use: Use) -> dict[str, Any]:
    return {"tool_name": THEIRS.get(use.tool, use.tool), "tool_input": use.args}


def _specific(said: dict[str, Any]) -> dict[str, Any]:
    found = said.get("hookSpecificOutput")
    return found if isinstance(found, dict) else {}


def _blocked(said: dict[str, Any]) -> str | None:
    """Why this answer blocks, in its newer or older form; None when it does not."""
    specific = _specific(said)
    if specific.get("permissionDecision") == "deny":
        return str(specific.get("permissionDecisionReason") or "a hook denied it")
    if said.get("decision") in ("block", "deny"):
        return str(said.get("reason") or "a hook blocked it")
    if said.get("continue") is False:
        return str(said.get("stopReason") or "a hook ended the turn")
    return None
