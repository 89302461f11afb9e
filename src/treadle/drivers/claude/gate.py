"""What Claude Code asks us about tools: whether one may run, how it ended, and to run tools of the opening program.

A hook announces every call before it runs, also one that Claude Code would not ask about: our rules and the hooks of
the program that opened the session judge it there.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Literal, TypeAlias

import msgspec

from treadle import __version__
from treadle.agent.hooks import judged, use_of
from treadle.drivers.session import DrivenSession
from treadle.errors import RemoteError, TreadleError
from treadle.events import ToolKind
from treadle.policy.guess import access_of
from treadle.session import (
    Access,
    Answer,
    Decision,
    HookVerdict,
    OfferedModel,
    OwnTool,
    ShownResult,
    Subagent,
)
from treadle.wire.acp.connection import image_block, transport
from treadle.wire.claude.connection import AnyRecord, ControlRequest, ControlResponse
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault
from treadle.wire.mcp.revisions import dispatch, welcome
from treadle.wire.oneshot.arguments import THEIRS

# Claude Code's tools: what each will touch, and our names for them.

KINDS: dict[str, ToolKind] = {
    "Bash": "execute",
    **dict.fromkeys(("Read", "NotebookRead", "Glob", "Grep", "LS"), "read"),
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), "write"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "network"),
}
INWARD = {
    *("Task", "Agent", "TodoWrite", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "Skill", "ToolSearch"),
    *("TaskStop", "TaskOutput", "BashOutput", "KillShell", "ListAgents", "ReportFindings", "ListMcpResourcesTool"),
}
"""Tools that change only the conversation: rules may name them, modes do not apply to them."""
_PATHS = ("file_path", "notebook_path", "path")


def claude_name(tool: str) -> str:
    """Claude Code's name for a tool of ours that it has too."""
    return THEIRS.get(tool, tool)


def about(name: str, args: Any) -> Access:
    """What a call will touch, with paths as they were written."""
    if name in INWARD:
        return Access(tool=name, kind="read", args=args)
    if name not in KINDS or not isinstance(args, dict):
        return access_of(name, args)
    paths = tuple(args[key] for key in _PATHS if isinstance(args.get(key), str))
    command, url = args.get("command"), args.get("url")
    return Access(
        tool=name,
        kind=KINDS[name],
        paths=paths if name != "Bash" else (),
        command=command if name == "Bash" and isinstance(command, str) else None,
        url=url if isinstance(url, str) else None,
        args=args,
    )


# Translates session settings and reports into the terms of Claude Code.


def subagent(given: Subagent) -> dict[str, Any]:
    entry: dict[str, Any] = {"description": given.description, "prompt": given.prompt}
    if given.tools is not None:
        entry["tools"] = [claude_name(name) for name in given.tools]
    if given.denied:
        entry["disallowedTools"] = [claude_name(name) for name in given.denied]
    if given.model is not None:
        entry["model"] = given.model
    if given.max_turns is not None:
        entry["maxTurns"] = given.max_turns
    return entry


def model(entry: dict[str, Any]) -> OfferedModel:
    """A model of its list. It is chosen by its short name."""
    value = str(entry.get("value") or "")
    name, about = str(entry.get("displayName") or value), str(entry.get("description") or "")
    return OfferedModel(id=value, name=name, description=about)


def server(entry: dict[str, Any]) -> dict[str, Any]:
    """An MCP server of a `.mcp.json`, with the type that Claude Code requires."""
    return {**{name: value for name, value in entry.items() if name != "disabled"}, "type": transport(entry)}


def response_text(response: Any) -> str:
    """A tool's result as text, for a person's hook: each tool has another form."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict) and isinstance(response.get("stdout"), str):
        return "\n".join(
            part for part in (response["stdout"], response.get("stderr")) if isinstance(part, str) and part
        )
    return msgspec.json.encode(response).decode() if response is not None else ""


# The control requests between Claude Code and us, in both directions, and who waits for which answer.

Say: TypeAlias = Callable[[AnyRecord], Awaitable[None]]


class ControlRequests:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self.asked: dict[str, asyncio.Task[None]] = {}
        """Its requests that we have not answered, by request id."""

    # We ask

    async def request(self, request: dict[str, Any]) -> Any:
        """Ask it something. Returns its answer, or raises RemoteError with what it said."""
        id = f"treadle-{next(self._ids)}"
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            await self._say(ControlRequest(request_id=id, request=request))
            return await answer
        finally:
            del self._waiting[id]

    def answered(self, response: dict[str, Any]) -> None:
        waiting = self._waiting.get(str(response.get("request_id")))
        if waiting is None or waiting.done():
            return
        if response.get("subtype") == "success":
            waiting.set_result(response.get("response"))
        else:
            waiting.set_exception(RemoteError(f"claude refused: {response.get('error') or 'no reason given'}"))

    def lost(self, error: TreadleError) -> None:
        """It will answer nothing any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    # It asks

    async def reply(self, record: ControlRequest, response: dict[str, Any]) -> None:
        body = {"subtype": "success", "request_id": record.request_id, "response": response}
        await self._say(ControlResponse(response=body))

    async def refuse(self, record: ControlRequest, why: str) -> None:
        body = {"subtype": "error", "request_id": record.request_id, "error": why}
        await self._say(ControlResponse(response=body))

    def taken_back(self, id: str) -> None:
        """It no longer wants that answer."""
        if (task := self.asked.pop(id, None)) is not None:
            task.cancel()

    def drop_all(self) -> None:
        for task in self.asked.values():
            task.cancel()


# What Claude Code asks a person, and how the answer is returned: questions, plans, lasting permissions.

ASKING: dict[str, Literal["question", "plan"]] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
"""Tools that are a question to the person, and its kind."""


def text_of(args: Any) -> str:
    asked = [str(each.get("question")) for each in _questions(args)]
    if asked:
        return "\n".join(asked)
    return str(args["plan"]) if isinstance(args, dict) and isinstance(args.get("plan"), str) else ""


def options_of(args: Any) -> tuple[str, ...]:
    first: dict[str, Any] = next(iter(_questions(args)), {})
    return tuple(str(each.get("label")) for each in first.get("options") or [] if isinstance(each, dict))


def answered(name: str, args: Any, answer: Answer) -> Any:
    """The arguments with which the tool runs after this answer."""
    if answer.changed_args is not None:
        return answer.changed_args
    if name == "AskUserQuestion" and isinstance(args, dict):
        return {**args, "answers": {str(each.get("question")): answer.text for each in _questions(args)}}
    return args


def granted_permissions(suggestions: Any, answer: Answer) -> list[Any]:
    """The rules it suggested to remember, if the person allowed more than this once; never a wider mode."""
    if answer.scope == "once" or not isinstance(suggestions, list):
        return []
    rules = [each for each in suggestions if isinstance(each, dict) and each.get("type") == "addRules"]
    return [each if answer.scope == "always" else {**each, "destination": "session"} for each in rules]


def _questions(args: Any) -> list[dict[str, Any]]:
    found = args.get("questions") if isinstance(args, dict) else None
    return [each for each in found or [] if isinstance(each, dict)] if isinstance(found, list) else []


# Tools of the program that opened the session, offered to Claude Code as MCP servers inside this process.
#
# Claude Code speaks MCP to such a server over its control records, one `mcp_message` a message, and starts nothing.

OWN_SERVER = "treadle"
"""The server of tools whose names contain no server."""


class HostedTools:
    def __init__(self) -> None:
        self._tools: dict[str, dict[str, OwnTool]] = {}
        """Server -> name of the tool there -> the tool."""

    def add(self, tools: tuple[OwnTool, ...]) -> None:
        for tool in tools:
            server, name = _place(tool.name)
            self._tools.setdefault(server, {})[name] = tool

    def servers(self) -> dict[str, dict[str, Any]]:
        return {name: {"type": "sdk", "name": name} for name in self._tools}

    async def answer(self, server: str, message: Any) -> dict[str, Any]:
        """The answer to one message; an empty object for a notification, which needs none."""
        asked = message if isinstance(message, dict) else {}
        if "id" not in asked:
            return {"jsonrpc": "2.0", "result": {}, "id": 0}
        try:
            body: dict[str, Any] = {"result": await self._result(server, asked)}
        except Fault as fault:
            body = {"error": {"code": fault.code, "message": fault.message}}
        return {"jsonrpc": "2.0", "id": asked["id"], **body}

    async def _result(self, server: str, asked: dict[str, Any]) -> dict[str, Any]:
        params, tools = asked.get("params"), self._tools.get(server, {})
        if not tools:
            raise Fault(INVALID_PARAMS, f"there is no server {server!r}")

        def initialize(given: dict[str, Any]) -> dict[str, Any]:
            return welcome(given.get("protocolVersion"), server, __version__, "")

        def listed() -> list[dict[str, Any]]:
            return [
                {"name": name, "description": tool.description, "inputSchema": tool.parameters}
                for name, tool in tools.items()
            ]

        given = params if isinstance(params, dict) else {}
        method, call = str(asked.get("method")), partial(_called, tools)
        answer = dispatch(method, given, initialize=initialize, tools=listed, call=call)
        return dict(await answer if isawaitable(answer) else answer)


async def _called(tools: dict[str, OwnTool], params: dict[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or name not in tools:
        raise Fault(INVALID_PARAMS, f"there is no tool {name!r}")
    try:
        result = await tools[name].call(arguments if isinstance(arguments, dict) else {})
        shown = ShownResult(text=result) if isinstance(result, str) else result
        images = [image_block(data) for data in shown.images]
        return {"content": [{"type": "text", "text": shown.text}, *images], "isError": False}
    except TreadleError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}


def _place(name: str) -> tuple[str, str]:
    """`mcp__server__tool` -> its two names."""
    parts = name.split("__", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "mcp" else (OWN_SERVER, name)


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
        access = about(name, args)
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
                await self._control.refuse(record, f"{other} is not supported")

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
        if name not in ASKING or hook.decision == "deny":
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
            text=text_of(args) or str(asked.get("description") or ""),
            kind=ASKING.get(name, "permission"),
            options=options_of(args),
            judged=id in self._must_ask,
            about=lambda changed: host.about(name, changed),
        )
        self._must_ask.discard(id)
        if answer.decision == "deny":
            why = answer.text or "the person said no"
            await self._control.reply(record, {"behavior": "deny", "message": why})
            return
        changed = answered(name, args, answer)
        host.tool_started(id, name, host.about(name, changed), host.calls[id].parent if id in host.calls else None)
        response: dict[str, Any] = {"behavior": "allow", "updatedInput": changed}
        if granted := granted_permissions(asked.get("permission_suggestions"), answer):
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
            text = response_text(hook_input.get("tool_response") if ok else hook_input.get("error"))
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
