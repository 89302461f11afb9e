"""The control requests of Claude Code's SDKs, each answered from the session; what cannot be done is refused."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from treadle import __version__
from treadle.doors.oneshot.greeting import Adaptable, Extensible, host_options
from treadle.doors.oneshot.hooks import HostHooks
from treadle.doors.oneshot.run import OneShot, models_used
from treadle.errors import ConfigError, NotFound, RemoteError, ToolError, TreadleError, Unsupported
from treadle.io.files import read_at_most
from treadle.session import Change, Instructions, OwnTool, Reasoning, Session, ShownResult, parse_mode
from treadle.sessions import abilities
from treadle.sessions.totals import Totals
from treadle.settings.claude import EVENTS
from treadle.wire.common.images import decoded
from treadle.wire.mcp.connection import server_prefix, tool_name
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.arguments import THEIRS
from treadle.workspace import uncommitted

# Tools of MCP servers inside the host's process, called over the control protocol.
#
# The host names the servers in `initialize`, or in `--mcp-config` with the type `sdk`. Each is spoken to in JSON-RPC,
# one `mcp_message` request per message, and its tools become tools of the session, like those of any other server.

PROTOCOL = "2025-11-25"
START_SECONDS, CALL_SECONDS = 30.0, 600.0
MOST_PAGES = 100

Request = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
Named = Callable[[str, str], str]
"""(server, tool) -> the name that the model sees."""


class HostServer:
    """One server of the host. Raises RemoteError when it does not answer properly."""

    def __init__(self, name: str, request: Request, named: Named) -> None:
        self.name = name
        self._request = request
        self._named = named
        self._ids = itertools.count()

    async def tools(self) -> tuple[OwnTool, ...]:
        """Greet it and list all tools that it offers."""
        try:
            async with asyncio.timeout(START_SECONDS):
                greeting = {"name": "treadle", "version": __version__}
                await self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": greeting})
                await self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})
                return tuple([self._tool(entry) for entry in await self._list()])
        except TimeoutError:
            raise RemoteError(f"the MCP server {self.name!r} of the host did not answer in time") from None

    async def _list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(MOST_PAGES):
            page = await self._ask("tools/list", {"cursor": cursor} if cursor else {})
            found += [entry for entry in page.get("tools") or () if isinstance(entry, dict) and entry.get("name")]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return found

    def _tool(self, entry: dict[str, Any]) -> OwnTool:
        name = str(entry["name"])

        async def call(arguments: dict[str, Any]) -> str | ShownResult:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    result = await self._ask("tools/call", {"name": name, "arguments": arguments})
            except TimeoutError:
                raise ToolError(f"{name} of the host did not answer within {CALL_SECONDS:g} s") from None
            except TreadleError as error:
                raise ToolError(str(error)) from error
            text = _text(result)
            if result.get("isError"):
                raise ToolError(text or "the tool failed without saying why")
            images = _images(result)
            return ShownResult(text=text, images=images) if images else text

        schema = entry.get("inputSchema")
        return OwnTool(
            name=self._named(self.name, name),
            description=str(entry.get("description") or name),
            parameters=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
            call=call,
        )

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self._say({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        error = answer.get("error")
        if isinstance(error, dict):
            raise RemoteError(f"the MCP server {self.name!r} of the host: {error.get('message') or error}")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise RemoteError(f"the MCP server {self.name!r} of the host answered {method} without a result")
        return result

    async def _say(self, message: dict[str, Any]) -> dict[str, Any]:
        reply = await self._request({"subtype": "mcp_message", "server_name": self.name, "message": message})
        answer = reply.get("mcp_response")
        return answer if isinstance(answer, dict) else {}


def _images(result: dict[str, Any]) -> tuple[bytes, ...]:
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    return tuple(decoded(block.get("data")) for block in blocks if block.get("type") == "image")


def _text(result: dict[str, Any]) -> str:
    parts = []
    for block in result.get("content") or ():
        if isinstance(block, dict) and block.get("type") != "image":
            parts.append(str(block["text"]) if isinstance(block.get("text"), str) else f"[{block.get('type')}]")
    return "\n".join(parts)


# Control requests that only ask, or change little: versions, cost, models, rules, files, styles, skills, the name.

MOST = 1 << 20


class Inquiries:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """None: it is another kind of request."""
        info = self._session.info
        lists = wire.command_lists(info, self._session.commands())
        match request.get("subtype"):
            case "get_binary_version":
                return {"version": __version__, "buildTime": None}
            case "get_session_cost":
                cost = await self._session.command("cost", "")
                return {"text": cost.message if cost is not None else ""}
            case "list_models":
                return {"models": lists["models"]}
            case "list_permission_rules":
                return {"state": self._rules()}
            case "read_file":
                return self._file(request)
            case "reload_output_styles":
                return {"available_output_styles": lists["available_output_styles"]}
            case "reload_skills":
                skills = [command for command in self._session.commands() if command.skill]
                return {"skills": [{"name": skill.name, "description": skill.description} for skill in skills]}
            case "reload_plugins":
                servers = [{"name": name, "status": state} for name, state in info.mcp_servers.items()]
                return {
                    "commands": lists["commands"],
                    "agents": lists["agents"],
                    "plugins": [],
                    "mcpServers": servers,
                    "error_count": 0,
                }
            case "rename_session":
                await self._session.command("rename", str(request.get("title") or ""))
                return {}
            case "apply_flag_settings":
                await self._apply(request.get("settings"))
                return {}
            case "background_tasks":
                return {"backgrounded": False}  # a command that runs cannot be put in the background afterwards
            case "set_has_subscribers" | "seed_read_state":  # a file need not be read here before it is edited
                return {}
            case "file_suggestions":
                return self._suggestions(str(request.get("query") or ""))
            case "get_hooks_listing":
                return {"events": [], "hooks": [], "eventCatalog": [{"name": name} for name in EVENTS], "policy": {}}
        return None

    def _rules(self) -> dict[str, Any]:
        rules = self._session.every_rule() if isinstance(self._session, Adaptable) else []
        listed = [
            {"behavior": verdict, "source": "session", "rule": rule, "editability": "session"}
            for verdict, rule in rules
        ]
        return {"rules": listed, "workspaceDirectories": [], "originalCwd": self._cwd(), "managedOnly": False}

    def _cwd(self) -> str:
        return self._session.place() if isinstance(self._session, Adaptable) else os.getcwd()

    def _suggestions(self, begun: str) -> dict[str, Any]:
        found = uncommitted.matching(uncommitted.listed(self._cwd()), begun)
        return {"suggestions": [{"path": path} for path in found], "cwd": self._cwd()}

    def _file(self, request: dict[str, Any]) -> dict[str, Any]:
        """A file that the agent may read without a question, for a host that shows it."""
        asked = str(request.get("path") or "")
        path = os.path.join(self._cwd(), asked)
        if not isinstance(self._session, Adaptable) or not self._session.may_read(path):
            raise NotFound(f"{asked} is not a file that the agent may read without a question")
        wanted = request.get("max_bytes")
        try:
            data = read_at_most(path, min(wanted, MOST) if isinstance(wanted, int) and wanted > 0 else MOST)
        except OSError as error:
            raise NotFound(f"{asked}: {error.strerror}") from error
        text = data.decode(errors="replace")
        return {"contents": text, "absPath": path, "lossy": text.encode() != data, "requested_path": asked}

    async def _apply(self, settings: Any) -> None:
        """Settings for the rest of the session: the model, the mode and rules. What else is wanted is refused."""
        if not isinstance(settings, dict):
            raise ConfigError("settings must be an object")
        permissions = settings.get("permissions") or {}
        known = ("allow", "ask", "deny", "defaultMode")
        unknown = [name for name in settings if name not in ("model", "permissions")]
        unknown += [f"permissions.{name}" for name in permissions if name not in known]
        if unknown:
            raise ConfigError(f"these settings cannot be changed in a session: {', '.join(unknown)}")
        if model := settings.get("model"):
            await self._session.configure(Change(model=str(model)))
        if mode := permissions.get("defaultMode"):
            await self._session.configure(Change(mode=parse_mode(str(mode))))
        for verdict in ("deny", "ask", "allow"):
            for rule in permissions.get(verdict) or ():
                if not isinstance(self._session, Adaptable):
                    raise ConfigError("this agent takes no rules after it was opened")
                self._session.add_rule(verdict, str(rule))


IGNORED = {
    *("subtype", "hooks", "sdkMcpServers", "agents", "systemPrompt", "appendSystemPrompt", "jsonSchema"),
    *("sdkMcpServerManifests", "excludeDynamicSections", "systemPromptSnapshot", "promptSuggestions", "title"),
    *("agentProgressSummaries", "forwardSubagentText", "supportedDialogKinds", "perTaskStopAffordance", "skills"),
    *("rapidFollowupPreempt", "forwardNestedSubagentToolCalls", "workspaceTrust", "planModeInstructions"),
}
"""Fields of `initialize` that we use, and those that can safely be ignored because they forbid nothing."""
MISSED = ("planModeInstructions", "promptSuggestions", "agentProgressSummaries")
"""Of these, those whose effect a host would miss: it is told that they have none."""


class PromptQueue(Protocol):
    """The prompts that have come and are not begun, by their uuids."""

    def waiting(self) -> list[str]: ...

    def withdraw(self, uuid: str) -> bool: ...


class HostRequests:
    def __init__(
        self,
        session: Session,
        runner: OneShot,
        request: Request,
        warn: Callable[[str], None],
        *,
        hooks: HostHooks | None,
        servers: tuple[str, ...],
        instructions: Instructions,
        greeting: dict[str, Any] | None,
    ) -> None:
        """`servers`: MCP servers in the host's process that the command line names. `greeting`: the `initialize` that
        the session was opened with; `instructions`: those without it."""
        self._session = session
        self._runner = runner
        self._request = request
        self._warn = warn
        self._hooks = hooks
        self._named = servers
        self._instructions = instructions
        self._greeting = greeting
        self._servers: dict[str, str] = {}
        """The host's MCP servers and their status."""
        self._added: list[str] = []
        """Those of them that the host added later."""
        self.queue: PromptQueue | None = None
        self.turns: dict[str, str] = {}
        """The uuid of a prompt -> the turn that it began."""
        self.refused = ""
        """Why `initialize` was refused: a host whose options cannot be met is not served."""

    async def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("subtype"):
            case "initialize":
                return await self.initialize(request)
            case "interrupt":
                await asyncio.sleep(0)  # by then, a prompt that came before it has begun
                await self._runner.interrupt("interrupted by the host")
                return {"still_queued": self.queue.waiting() if self.queue is not None else []}
            case "cancel_async_message":
                wanted = str(request.get("message_uuid"))
                return {"cancelled": self.queue is not None and self.queue.withdraw(wanted)}
            case "set_permission_mode":
                await self._session.configure(Change(mode=parse_mode(str(request.get("mode")))))
                return {"mode": request.get("mode")}
            case "set_model":
                model = request.get("model")
                await self._session.configure(Change(model=None if model is None else str(model)))
                return {"model": ", ".join(self._session.info.models)}
            case "set_max_thinking_tokens":
                tokens = request.get("max_thinking_tokens")
                await self._session.configure(Change(thinking=Reasoning(tokens=_count(tokens))))
                return {}
            case "stop_task":
                await self._session.interrupt(str(request.get("task_id")), "stopped by the host")
                return {}
            case "rewind_files":
                return self._rewind(str(request.get("user_message_id")), dry=bool(request.get("dry_run")))
            case "mcp_status":
                return {"mcpServers": self._server_states()}
            case "mcp_reconnect" | "mcp_toggle":
                on = request.get("enabled", True) is not False
                await self._adaptable("switch MCP servers").switch_server(str(request.get("serverName")), on=on)
                return {}
            case "mcp_set_servers":
                return await self._set_servers(request.get("servers"))
            case "get_usage":
                return self._usage()
            case "get_context_usage":
                return self._context()
            case "get_settings":
                info = self._session.info
                return {"effective": {}, "sources": [], "applied": {"model": ", ".join(info.models)}}
            case "supported_commands":
                return wire.command_lists(self._session.info, self._session.commands())
        answer = await Inquiries(self._session).answer(request)
        if answer is not None:
            return answer
        raise NotFound(f"the control request {request.get('subtype')!r} is not offered here")

    # initialize

    async def initialize(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            await self._initialize(request)
        except TreadleError as error:
            self.refused = str(error)
            raise
        answer = wire.command_lists(self._session.info, self._session.commands())
        if request.get("hooks"):
            answer["hooks_applied"] = True
        return {**answer, "hook_on_failure_supported": True, "claude_code_version": wire.SPOKEN}

    async def _initialize(self, request: dict[str, Any]) -> None:
        unknown = [name for name, value in request.items() if name not in IGNORED and value]
        if unknown:
            raise Unsupported(f"initialize asks for {', '.join(unknown)}, which is not known here")
        for name in MISSED:
            if request.get(name):
                self._warn(f"initialize: {name} is not used here")
        if request.get("forwardSubagentText") and not self._runner.forward_subagents():
            self._warn("initialize: forwardSubagentText is not used here without --verbose")
        if title := request.get("title"):
            await self._session.command("rename", str(title))
        hooks = request.get("hooks")
        if hooks:
            if self._hooks is None:  # the hooks may be there to forbid something
                raise Unsupported("this agent cannot run hooks of the host", hint="native and claude can")
            for event in self._hooks.register(hooks):
                self._warn(f"hooks of the event {event} are not called here")
        asked = host_options(request, self._instructions)
        if asked.check is not None:
            self._runner.demand(asked.check)
        info = self._session.info
        for ability, wanted in (("subagents", asked.subagents), ("skills", isinstance(request.get("skills"), list))):
            if wanted:
                abilities.require(info.name, info.capabilities, ability)
        if request is not self._greeting and (asked.instructions is not None or asked.subagents):
            more = self._adaptable("be told more by its host after it was opened")
            more.adapt(instructions=asked.instructions, subagents=asked.subagents)
        if tools := await self._host_tools(request.get("sdkMcpServers"), self._named):
            await self._extensible().add_tools(tools)

    def _extensible(self) -> Extensible:
        if not isinstance(self._session, Extensible):
            name = self._session.info.name
            raise Unsupported(f"{name} cannot use tools of its host's process", hint="native and claude can")
        return self._session

    async def _host_tools(self, wanted: Any, named: tuple[str, ...]) -> tuple[OwnTool, ...]:
        names = dict.fromkeys([*(wanted if isinstance(wanted, list) else ()), *named])
        tools: list[OwnTool] = []
        for name in names:
            try:
                tools += await HostServer(str(name), self._request, tool_name).tools()
                self._servers[str(name)] = "connected"
            except TreadleError as error:
                self._servers[str(name)] = "failed"
                self._warn(f"the MCP server {name!r} of the host is not used: {error}")
        return tuple(tools)

    async def _set_servers(self, servers: Any) -> dict[str, Any]:
        """The servers that the host has added are now these; those of settings and of the start stay."""
        if not isinstance(servers, dict) or not all(isinstance(entry, dict) for entry in servers.values()):
            raise ConfigError("servers must be an object with an object for each name")
        more = self._adaptable("get other MCP servers")
        inside = [name for name, entry in servers.items() if entry.get("type") == "sdk"]
        changed = await more.set_servers({name: entry for name, entry in servers.items() if name not in inside})
        old = [name for name in self._added if name not in inside]
        for name in old:
            if self._servers.pop(name, "") == "connected":
                await more.switch_server(name, on=False)
        new = [name for name in inside if name not in self._added]
        self._added = inside
        if tools := await self._host_tools(new, named=()):
            await self._extensible().add_tools(tools)
            for name in {name for name in new if self._servers.get(name) == "connected"}:
                await more.switch_server(name, on=True)  # it may have been here before
        failed = {name: "it did not answer" for name in new if self._servers.get(name) != "connected"}
        return {
            "added": [*changed.added, *(name for name in new if name not in failed)],
            "removed": [*changed.removed, *old],
            "errors": {**changed.errors, **failed},
        }

    # The rest

    def _usage(self) -> dict[str, Any]:
        hosting, window = self._runner.hosting, self._session.info.context_window
        spent = hosting.spent if hosting is not None else Totals()
        session = {
            "total_cost_usd": spent.cost_usd,
            "total_api_duration_ms": hosting.model_ms if hosting is not None else 0,
            "total_duration_ms": hosting.total_ms if hosting is not None else 0,
            "total_lines_added": None,
            "total_lines_removed": None,
            "model_usage": models_used(hosting.by_model, window) if hosting is not None else {},
        }
        plan = {"subscription_type": None, "rate_limits_available": False, "rate_limits": None, "behaviors": None}
        return {"session": session, **plan}

    def _adaptable(self, to: str) -> Adaptable:
        if not isinstance(self._session, Adaptable):
            raise Unsupported(f"{self._session.info.name} cannot {to}", hint="the native agent can")
        return self._session

    def _rewind(self, prompt: str, *, dry: bool) -> dict[str, Any]:
        turn = self.turns.get(prompt)
        if turn is None:
            raise NotFound(f"no prompt of this session has the uuid {prompt!r}")
        if self._runner.busy:
            raise Unsupported("files are put back between two turns, not during one")
        if dry:
            raise Unsupported("a dry run of putting files back is not offered here")
        changed = self._adaptable("put files back").restore_files(turn)
        return {"canRewind": True, "filesChanged": changed}

    def _server_states(self) -> list[dict[str, Any]]:
        info = self._session.info
        states = {**self._servers, **info.mcp_servers}
        return [
            {"name": name, "status": state, "tools": [{"name": tool} for tool in _tools_of(name, info.tools)]}
            for name, state in states.items()
        ]

    def _context(self) -> dict[str, Any]:
        parts = self._adaptable("tell what fills its context").context_parts()
        info = self._session.info
        total, window = sum(tokens for _, tokens in parts), info.context_window or 0
        return {
            "categories": [{"name": name, "tokens": tokens, "color": "", "kind": "used"} for name, tokens in parts],
            "totalTokens": total,
            "maxTokens": window,
            "rawMaxTokens": window,
            "percentage": round(100 * total / window, 1) if window else 0.0,
            "model": ", ".join(info.models),
            "isAutoCompactEnabled": True,
            "memoryFiles": [],
            "mcpTools": [{"name": THEIRS.get(tool, tool)} for tool in info.tools if tool.startswith("mcp__")],
            "agents": [{"agentType": name} for name in info.subagents],
            "gridRows": [],
        }


def _count(tokens: Any) -> int | None:
    return tokens if type(tokens) is int and tokens >= 0 else None  # true is no number


def _tools_of(server: str, tools: Iterable[str]) -> list[str]:
    prefix = server_prefix(server)
    return [tool.removeprefix(prefix) for tool in tools if tool.startswith(prefix)]
