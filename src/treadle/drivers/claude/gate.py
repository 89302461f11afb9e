"""What Claude Code asks us about tools: whether one may run, how it ended, and to run tools of the opening program.

A hook announces every call before it runs, also one that Claude Code would not ask about: our rules and the hooks of
the program that opened the session judge it there.
"""

from typing import Any

from treadle.agent.program import judged, use_of
from treadle.drivers.claude import forms, questions, tools
from treadle.drivers.claude.control import ControlRequests
from treadle.drivers.claude.hosted import HostedTools
from treadle.drivers.session import DrivenSession
from treadle.session import Access, Decision, HookVerdict
from treadle.wire.claude.records import ControlRequest


class Call:
    """A tool call that the model has asked for."""

    def __init__(self, name: str, args: Any, parent: str | None) -> None:
        self.name = name
        self.args = args
        self.parent = parent


class GatedSession(DrivenSession):
    """A session whose tool calls are judged here."""

    calls: dict[str, Call]

    def about(self, name: str, args: Any) -> Access:
        access = tools.about(name, args)
        return self.access(name, args, access.kind, access.paths, command=access.command, url=access.url)

    def judge(self, access: Access) -> Decision:
        return self._guard(access)

    def starter_of(self, agent: Any) -> str | None:
        """The call that started this subagent; None for the agent itself."""
        raise NotImplementedError


class ToolGate:
    def __init__(self, host: GatedSession, control: ControlRequests, hosted: HostedTools) -> None:
        self._host = host
        self._control = control
        self._hosted = hosted
        self._must_ask: set[str] = set()
        """Calls about which a hook of the program wants a person to be asked, whatever the rules say."""

    async def answer(self, record: ControlRequest) -> None:
        match record.request.get("subtype"):
            case "can_use_tool":
                await self._can_use(record)
            case "hook_callback" if record.request.get("callback_id") == "after":
                await self._has_run(record)
            case "hook_callback":
                await self._about_to_run(record)
            case "mcp_message":
                await self._own_tool(record)
            case other:
                await self._control.refuse(record, f"{other} is not offered here")

    async def _about_to_run(self, record: ControlRequest) -> None:
        """Our rules and the program say yes or no, or that a person must be asked."""
        host, hook_input = self._host, record.request.get("input") or {}
        name, args = str(hook_input.get("tool_name")), hook_input.get("tool_input")
        id = str(hook_input.get("tool_use_id") or record.request.get("tool_use_id"))
        # The hook may be called before the message with the call has come, so that does not say whose call it is.
        call = host.calls.setdefault(id, Call(name, args, host.starter_of(hook_input.get("agent_id"))))
        hook = await judged(host.spec.program, use_of(name, args, host.about(name, args), id))
        if hook.args is not None:
            call.args = args = hook.args
        output: dict[str, Any] = {"hookEventName": "PreToolUse"}
        if name not in questions.ASKING or hook.decision == "deny":
            decision = self._decided(id, name, call, hook)
            output["permissionDecision"] = decision.verdict
            output["permissionDecisionReason"] = decision.reason or "the rules of this session allow it"
        if hook.args is not None:
            output["updatedInput"] = args
        if hook.context:
            output["additionalContext"] = hook.context
        await self._control.reply(record, {"hookSpecificOutput": output} if len(output) > 1 else {})

    def _decided(self, id: str, name: str, call: Call, hook: HookVerdict) -> Decision:
        """What rules or the hook forbid is forbidden; what the hook allows needs no question."""
        access = self._host.about(name, call.args)
        decision = self._host.judge(access)
        if decision.verdict != "deny" and hook.decision:
            decision = Decision(verdict=hook.decision, reason=hook.reason or decision.reason, by="hook")
        if decision.verdict == "deny":
            self._host.tool_denied(id, name, decision.reason, decision.by, call.args, call.parent)
        elif decision.verdict == "allow":
            self._host.tool_started(id, name, access, call.parent)
        elif decision.by == "hook":
            self._must_ask.add(id)
        return decision

    async def _can_use(self, record: ControlRequest) -> None:
        host, asked = self._host, record.request
        name, args = str(asked.get("tool_name")), asked.get("input")
        id = str(asked.get("tool_use_id") or record.request_id)
        answer = await host.permit(
            host.about(name, args),
            call=id,
            text=questions.text_of(args) or str(asked.get("description") or ""),
            kind=questions.ASKING.get(name, "permission"),
            options=questions.options_of(args),
            judged=id in self._must_ask,
            about=lambda changed: host.about(name, changed),
        )
        self._must_ask.discard(id)
        if answer.decision == "deny":
            why = answer.text or "the person said no"
            await self._control.reply(record, {"behavior": "deny", "message": why})
            return
        changed = questions.answered(name, args, answer)
        host.tool_started(id, name, host.about(name, changed), host.calls[id].parent if id in host.calls else None)
        response: dict[str, Any] = {"behavior": "allow", "updatedInput": changed}
        if granted := questions.granted(asked.get("permission_suggestions"), answer):
            response["updatedPermissions"] = granted
        await self._control.reply(record, response)

    async def _has_run(self, record: ControlRequest) -> None:
        """What the program's hook adds goes to the model."""
        hook_input = record.request.get("input") or {}
        name, args, event = (
            str(hook_input.get("tool_name")),
            hook_input.get("tool_input"),
            str(hook_input.get("hook_event_name")),
        )
        ok = event == "PostToolUse"
        after, added = self._host.spec.program.post_tool, None
        if after is not None:
            text = forms.response_text(hook_input.get("tool_response") if ok else hook_input.get("error"))
            call = str(hook_input.get("tool_use_id") or "")
            added = await after(use_of(name, args, self._host.about(name, args), call), text, ok)
        verdict = added if isinstance(added, HookVerdict) else HookVerdict(context=added or "")
        output: dict[str, Any] = {"additionalContext": verdict.context} if verdict.context else {}
        if verdict.result is not None and ok:
            output["updatedMCPToolOutput" if name.startswith("mcp__") else "updatedToolOutput"] = verdict.result
        await self._control.reply(record, {"hookSpecificOutput": {"hookEventName": event, **output}} if output else {})

    async def _own_tool(self, record: ControlRequest) -> None:
        asked = record.request
        answer = await self._hosted.answer(str(asked.get("server_name")), asked.get("message"))
        await self._control.reply(record, {"mcp_response": answer})
