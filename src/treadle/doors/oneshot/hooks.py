"""Hooks of the host: callbacks in its process, which it names in `initialize` and we call over the control protocol;
and the lines of `--include-hook-events`.

What events tell and answers mean is in `agent/hooks.py`, as for the commands of settings. An event that could
forbid something and that we cannot call refuses `initialize`; a callback that fails, or that does not answer in time,
blocks the tool call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from treadle.agent.hooks import EventHooks, HookStep, Judge, matches
from treadle.doors.oneshot.hosting import Adaptable
from treadle.doors.oneshot.run import OneShot
from treadle.errors import Unsupported
from treadle.session import Session
from treadle.settings.claude import EVENTS, NOT_CALLED, TIMEOUT
from treadle.wire.oneshot.connection import hook_response, hook_started, new_uuid

Request = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a control request to the host and returns the response; raises when the host answers with an error."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    matcher: str
    callbacks: tuple[str, ...]
    timeout: float


class HostHooks(EventHooks):
    """Pass `program()` to the session when it is opened, and add the host's hooks once they are known."""

    _request: Request | None = None
    _hooks: dict[str, list[Registered]] = {}

    def connect(
        self,
        described: Callable[[], dict[str, Any]],
        request: Request | None,
        stop: Callable[[str], Awaitable[None]],
        judge: Judge | None = None,
    ) -> None:
        self.described, self._request, self.stop_turn, self.judge = described, request, stop, judge

    def register(self, hooks: Any) -> list[str]:
        """Register the hooks of `initialize`. Returns the events whose hooks are not called; raises if one matters."""
        if not isinstance(hooks, dict):
            raise Unsupported(f"hooks must be an object, not {type(hooks).__name__}")
        found: dict[str, list[Registered]] = {}
        for event, groups in hooks.items():
            if event not in EVENTS + NOT_CALLED:
                raise Unsupported(
                    f"hooks of the event {event!r} are not supported", hint=f"the events are {', '.join(EVENTS)}"
                )
            found[event] = [_registered(event, group) for group in groups or ()]
        self._hooks = found
        return [event for event in found if event in NOT_CALLED and found[event]]

    def hears(self, event: str) -> bool:
        return bool(self._hooks.get(event)) or super().hears(event)

    def further(self, event: str, subject: str, given: dict[str, Any]) -> list[Awaitable[dict[str, Any]]]:
        return [
            self._call(callback, given, group.timeout)
            for group in self._hooks.get(event, ())
            if matches(group.matcher, subject)
            for callback in group.callbacks
        ]

    async def _call(self, callback: str, given: dict[str, Any], timeout: float) -> dict[str, Any]:
        if self._request is None:
            raise Unsupported("the host is not connected")
        call = given.get("tool_use_id") or new_uuid()  # every call of a hook has one, also where no tool is used
        request = {"subtype": "hook_callback", "callback_id": callback, "input": given, "tool_use_id": call}
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


# `--include-hook-events`: a line when a command of a hook begins, and one when it has ended.


def write_hook_lines(session: Session, runner: OneShot) -> Callable[[HookStep], None]:
    """Of the hooks of settings, files and plugins; those of the host it runs itself."""

    def write(step: HookStep) -> None:
        about = (step.id, step.name, step.event, session.id)
        if step.done:
            how = {"stdout": step.stdout, "stderr": step.stderr}
            runner.tell(hook_response(*about, **how, exit_code=step.exit_code))
        else:
            runner.tell(hook_started(*about))

    if isinstance(session, Adaptable):
        session.watch_hooks(write)
    return write
