"""Hooks in Claude Code's form: what each event tells them, and what their answers mean.

An answer is a JSON object: `decision`, `continue`, `systemMessage`, and `hookSpecificOutput` with
`permissionDecision`, `updatedInput`, `additionalContext`, `updatedToolOutput`. Hooks may be there to forbid something,
so a hook that cannot be asked where it could forbid blocks. The hooks here are those of settings, which `hooks.py`
runs; a door adds those of its host.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from treadle.errors import TreadleError
from treadle.events import CommandRun, FileChanged, ToolEnded, ToolStarted
from treadle.io.files import text_if_there
from treadle.io.tasks import end_tasks, start_held
from treadle.session import HookVerdict, OwnProgram, Use
from treadle.settings.claude import FORBIDDING, CommandHook
from treadle.wire.oneshot.arguments import THEIRS, USED, to_ours, to_theirs

if TYPE_CHECKING:
    from treadle.agent.hooks import HookStep

_SUBJECTS = ("agent_type", "trigger", "notification_type", "command_name", "to_model", "error", "load_reason")
"""What the matcher of an event without a tool is compared with."""
Judge = Callable[[str, str, str], Awaitable[str]]
"""Asks a model: given the instructions, the question and the model's name (empty: the session's), gives its answer."""
_WITHOUT_MODE = (
    *("PreCompact", "PostCompact", "PreModelSwitch", "PostModelSwitch"),
    *("SessionStart", "SubagentStart", "InstructionsLoaded"),
)
"""Events that are not told the mode of permissions, as in Claude Code."""
Described = Callable[[], dict[str, Any]]
"""What every hook is told: session_id, transcript_path, permission_mode."""


def matches(matcher: str, subject: str) -> bool:
    """Whether a matcher names a tool, by Claude's name or ours, or another subject; empty and a star match all."""
    if matcher in ("", "*") or not subject:
        return True
    try:
        pattern = re.compile(matcher)
    except re.error:
        return True  # an unreadable matcher must not let a tool slip by
    known = (subject, THEIRS.get(subject, subject), USED.get(subject, subject))
    return any(pattern.fullmatch(name) for name in known)


class EventHooks:
    """Pass `program()` to the session when it is opened."""

    def __init__(
        self,
        cwd: str,
        commands: tuple[CommandHook, ...] = (),
        warn: Callable[[str], None] = lambda message: None,
        *,
        env: Mapping[str, str] | None = None,
        described: Described = dict,
        judge: Judge | None = None,
    ) -> None:
        """`judge` asks a model, for hooks that are questions."""
        self._cwd = cwd
        self.judge = judge
        self._ran: set[int] = set()
        """The places of hooks that run only once and did."""
        self._background: set[asyncio.Task[Any]] = set()
        self._commands = commands
        self._warn = warn
        self._env = dict(env or {})
        self.described = described
        self._going_on = False
        """Whether the turn goes on because a Stop hook wanted it."""
        self.stop_turn: Callable[[str], Awaitable[None]] | None = None
        self.watch: Callable[[HookStep], None] | None = None
        """Told when a command of a hook begins and ends."""

    def program(self) -> OwnProgram:
        return OwnProgram(pre_tool=self._pre_tool, post_tool=self._post_tool, stop=self._stop, event=self._event)

    def hears(self, event: str) -> bool:
        """Whether any hook is there for this event."""
        return any(hook.event == event for hook in self._commands)

    async def prompted(self, prompt: str) -> tuple[str | None, str]:
        """Before a prompt: a reason to refuse it, or None; and text to put in front of it."""
        try:
            answers = await self.ask("UserPromptSubmit", "", {"prompt": prompt})
        except TreadleError as error:
            return f"a hook could not be asked: {error}", ""
        for answer in answers:
            if (reason := _blocked(answer)) is not None:
                return reason, ""
        return None, "".join(f"{more}\n\n" for more in _contexts(answers))

    async def started(self, source: str, model: str = "") -> str:
        """When a session begins: text to put in front of its first prompt."""
        if not self.hears("SessionStart"):
            return ""
        payload = {"source": source, "model": model} if model else {"source": source}
        answers = await self._look("SessionStart", source, payload)
        return "".join(f"{more}\n\n" for more in _contexts(answers))

    async def ended(self, reason: str) -> None:
        """When a session ends; what hooks still do in the background is stopped."""
        if self.hears("SessionEnd"):
            await self._look("SessionEnd", reason, {"reason": reason})
        await end_tasks(*self._background)

    async def _pre_tool(self, use: Use) -> str | HookVerdict | None:
        try:
            answers = await self.ask("PreToolUse", use.tool, _input(use), use)
        except TreadleError as error:
            return f"a hook could not be asked: {error}"
        decision: Literal["allow", "ask", ""] = ""
        why, changed = "", None
        for answer in answers:
            if answer.get("continue") is False:
                await self._end_turn(str(answer.get("stopReason") or "a hook ended the turn"))
            if (reason := _blocked(answer)) is not None:
                context = "\n".join(_contexts(answers))
                return HookVerdict(decision="deny", reason=reason, context=context) if context else reason
            specific = _specific(answer)
            wanted = specific.get("permissionDecision") or answer.get("decision")
            if wanted == "ask" or wanted in ("allow", "approve") and not decision:  # the stricter of several
                decision = "ask" if wanted == "ask" else "allow"
                why = str(specific.get("permissionDecisionReason") or answer.get("reason") or "")
            if isinstance(specific.get("updatedInput"), dict):
                changed = to_ours(use.tool, specific["updatedInput"])
        context = "\n".join(_contexts(answers))
        if not decision and changed is None and not context:
            return None
        return HookVerdict(decision=decision, reason=why, args=changed, context=context)

    async def _post_tool(self, use: Use, result: str, ok: bool) -> str | HookVerdict | None:
        ok = ok and not use.exit_code
        payload = {**_input(use), **(_response(use, result) if ok else {"error": result, "is_interrupt": False})}
        if use.duration_ms is not None:
            payload["duration_ms"] = use.duration_ms
        try:
            answers = await self.ask("PostToolUse" if ok else "PostToolUseFailure", use.tool, payload, use)
        except TreadleError as error:
            return f"(a hook could not be asked: {error})"
        added, replaced = [], None
        for answer in answers:
            if answer.get("continue") is False:
                await self._end_turn(str(answer.get("stopReason") or "a hook ended the turn"))
            added += [text for text in (_blocked(answer), _specific(answer).get("additionalContext")) if text]
            for name in ("updatedMCPToolOutput", "updatedToolOutput"):
                if (value := _specific(answer).get(name)) is not None:
                    replaced = _shown(value)
        context = "\n".join(map(str, added))
        return context or None if replaced is None else HookVerdict(context=context, result=replaced)

    async def _stop(self, outcome: str, text: str) -> str | None:
        """Why the turn must go on, if a hook says so."""
        return await self._stopping("Stop", "", {}, text)

    async def _stopping(self, event: str, subject: str, payload: dict[str, Any], text: str) -> str | None:
        payload = {**payload, "stop_hook_active": self._going_on, "last_assistant_message": text}
        reasons: list[str] = []
        for answer in await self._look(event, subject, payload):
            if answer.get("continue") is False:
                reasons.clear()
                break
            if answer.get("decision") == "block":
                reasons.append(str(answer.get("reason") or "a hook wants you to go on"))
            elif isinstance(more := _specific(answer).get("additionalContext"), str):
                reasons.append(more)
        self._going_on = bool(reasons)
        return "\n".join(reasons) or None

    async def _event(self, event: str, payload: dict[str, Any]) -> HookVerdict | None:
        """What hooks say to an event that is no tool call: a reason against it, or text for the model."""
        if not self.hears(event):
            return None
        subject = str(next((payload[name] for name in _SUBJECTS if payload.get(name)), ""))
        if event == "SubagentStop":
            more = await self._stopping(event, subject, payload, str(payload.get("last_assistant_message", "")))
            return HookVerdict(context=more) if more else None
        if event == "PermissionRequest":
            return await self._requested(payload)
        if event == "PostToolBatch":
            payload = {"tool_calls": [_as_theirs(call) for call in payload["tool_calls"]]}
        if event in FORBIDDING:
            try:
                answers = await self.ask(event, subject, payload)
            except TreadleError as error:
                return HookVerdict(decision="deny", reason=f"a hook could not be asked: {error}")
        else:
            answers = await self._look(event, subject, payload)
        reason = next((found for answer in answers if (found := _blocked(answer)) is not None), None)
        context = "\n".join(_contexts(answers))
        if reason is None and not context:
            return None
        return HookVerdict(decision="" if reason is None else "deny", reason=reason or "", context=context)

    async def _requested(self, payload: dict[str, Any]) -> HookVerdict | None:
        """A hook may answer a permission question in place of a person."""
        tool = str(payload["tool_name"])
        use = payload.pop("use", None)
        given = {**payload, "tool_name": USED.get(tool, tool), "tool_input": to_theirs(tool, payload.get("tool_input"))}
        from treadle.wire.oneshot.arguments import suggested_rules

        given["permission_suggestions"] = suggested_rules(tuple(given.pop("always", ())), str(given.pop("kind", "")))
        try:
            answers = await self.ask("PermissionRequest", tool, given, use)
        except TreadleError as error:
            return HookVerdict(decision="deny", reason=f"a hook could not be asked: {error}")
        found = None
        for answer in answers:
            decision = _specific(answer).get("decision")
            if (reason := _blocked(answer)) is not None:
                return HookVerdict(decision="deny", reason=reason)
            if not isinstance(decision, dict):
                continue
            if decision.get("behavior") == "deny":
                if decision.get("interrupt") is True:
                    await self._end_turn(str(decision.get("message") or "a hook ended the turn"))
                return HookVerdict(decision="deny", reason=str(decision.get("message") or "a hook denied it"))
            if decision.get("behavior") == "allow":
                changed = decision.get("updatedInput")
                found = HookVerdict(
                    decision="allow", args=to_ours(tool, changed) if isinstance(changed, dict) else None
                )
        return found

    async def _look(self, event: str, subject: str, payload: dict[str, Any]) -> list[dict[str, Any]]:
        """Ask hooks that can forbid nothing: if one fails, that is a warning."""
        try:
            return await self.ask(event, subject, payload)
        except TreadleError as error:
            self._warn(f"a hook of {event} could not be asked: {error}")
            return []

    async def _end_turn(self, reason: str) -> None:
        if self.stop_turn is not None:
            await self.stop_turn(reason)

    async def ask(
        self, event: str, subject: str, payload: dict[str, Any], use: Use | None = None
    ) -> list[dict[str, Any]]:
        """The answers of all matching hooks, which are asked at the same time, in their order."""
        known = self.described()
        if event not in ("Stop", "SubagentStop"):
            known = {name: value for name, value in known.items() if name not in ("background_tasks", "session_crons")}
        if event in _WITHOUT_MODE:
            known.pop("permission_mode", None)
        given = {**known, "cwd": self._cwd, "hook_event_name": event, **payload}
        wanted = [self._run(hook, given) for hook in self._matching(event, subject, use)]
        answers = await asyncio.gather(*wanted, *self.further(event, subject, given))
        for answer in answers:
            if isinstance(answer.get("systemMessage"), str):
                self._warn(answer["systemMessage"])
        return answers

    def _matching(self, event: str, subject: str, use: Use | None) -> list[CommandHook]:
        from treadle.agent.hooks import concerns  # imported here because few runs have hooks

        found = []
        for place, hook in enumerate(self._commands):
            if hook.event != event or not matches(hook.matcher, subject) or place in self._ran:
                continue
            if concerns(hook.condition, use, self._cwd):
                found.append(hook)
                if hook.once:
                    self._ran.add(place)
        return found

    async def _run(self, hook: CommandHook, given: dict[str, Any]) -> dict[str, Any]:
        from treadle.agent.hooks import run

        running = run(hook, given, self._cwd, self._warn, self._env, self.judge, self.watch)
        if not hook.background:
            return await running
        start_held(self._background, self._run_aside(hook, running))
        return {}

    async def _run_aside(self, hook: CommandHook, running: Awaitable[dict[str, Any]]) -> None:
        try:
            await running
        except TreadleError as error:
            self._warn(f"a hook of {hook.event} in the background failed: {error}")

    def further(self, event: str, subject: str, given: dict[str, Any]) -> list[Awaitable[dict[str, Any]]]:
        """Further answers to the same event; a door adds those of its host."""
        return []


def _input(use: Use) -> dict[str, Any]:
    payload = {
        "tool_name": USED.get(use.tool, use.tool),
        "tool_input": to_theirs(use.tool, use.args),
        "tool_use_id": use.call,
    }
    return {**payload, "agent_id": use.agent, "agent_type": use.agent_type} if use.agent else payload


def _as_theirs(call: dict[str, Any]) -> dict[str, Any]:
    """A call of the model, with its arguments as it wrote them, by Claude's names."""
    name = call["tool_name"]
    try:
        given = msgspec.json.decode(call["tool_input"])
    except (msgspec.DecodeError, RecursionError):
        given = {}
    return {**call, "tool_name": USED.get(name, name), "tool_input": to_theirs(name, given)}


def _response(use: Use, result: str) -> dict[str, Any]:
    """What the tool gave, in the shape that Claude Code's tool of that kind has."""
    from treadle.wire.oneshot.content import tool_use_result  # imported here because few runs have hooks

    ended = ToolEnded(call=use.call, name=use.tool, result=result, ok=True)
    started = ToolStarted(call=use.call, name=use.tool, args=use.args)
    ran = next((one for one in reversed(use.did) if isinstance(one, CommandRun)), None)
    changed = next((one for one in reversed(use.did) if isinstance(one, FileChanged)), None)
    now = text_if_there(changed.path) if changed is not None and changed.change == "modified" else None
    return {"tool_response": tool_use_result(ended, started, ran, changed, now)}


def _contexts(answers: list[dict[str, Any]]) -> list[str]:
    found = [_specific(answer).get("additionalContext") for answer in answers]
    return [text for text in found if isinstance(text, str) and text]


def _specific(answer: dict[str, Any]) -> dict[str, Any]:
    found = answer.get("hookSpecificOutput")
    return found if isinstance(found, dict) else {}


def _shown(value: Any) -> str:
    """A tool's output that a hook put in the place of the real one, as the model reads it."""
    if isinstance(value, str):
        return value
    blocks = value.get("content") if isinstance(value, dict) else value
    if isinstance(blocks, list) and all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in blocks):
        return "\n".join(one["text"] for one in blocks)
    if isinstance(value, dict) and isinstance(value.get("stdout"), str):
        return "\n".join(text for text in (value["stdout"], value.get("stderr")) if isinstance(text, str) and text)
    return msgspec.json.encode(value).decode()


def _blocked(answer: dict[str, Any]) -> str | None:
    """Why this answer blocks, in its newer or older form; None when it does not."""
    specific = _specific(answer)
    if specific.get("permissionDecision") == "deny":
        return str(specific.get("permissionDecisionReason") or "a hook denied it")
    if answer.get("decision") in ("block", "deny"):
        return str(answer.get("reason") or "a hook blocked it")
    if answer.get("continue") is False:
        return str(answer.get("stopReason") or "a hook ended the turn")
    return None
