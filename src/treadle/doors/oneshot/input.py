"""`--input-format stream-json`: many prompts on stdin, one result each, with the control requests of Claude Code's SDK.

A program that drives Claude Code through `claude-agent-sdk` can drive any session this way: prompts, interruption,
mode, model, and permission questions that its own callback answers.
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from treadle import __version__
from treadle.doors.fields import FieldTable
from treadle.doors.oneshot.hooks import HostHooks
from treadle.doors.oneshot.hosting import Adaptable, Extensible, Heard, facts_of, host_options, judge_of
from treadle.doors.oneshot.run import OneShot, models_used
from treadle.errors import (
    ConfigError,
    NotFound,
    RemoteError,
    RemoteProtocolError,
    ToolError,
    TreadleError,
    Unsupported,
)
from treadle.events import Answered, Asked, Task, TaskChanged
from treadle.io.files import read_at_most
from treadle.io.link import Link
from treadle.io.streams import Stream
from treadle.session import (
    Answer,
    Change,
    Instructions,
    OwnTool,
    Reasoning,
    Session,
    ShownResult,
    parse_mode,
)
from treadle.sessions import abilities
from treadle.sessions.totals import Totals
from treadle.settings.claude import EVENTS
from treadle.wire.common.images import decoded
from treadle.wire.common.jsonrpc import INVALID_REQUEST, Fault
from treadle.wire.mcp.connection import server_prefix, tool_name
from treadle.wire.oneshot import arguments
from treadle.wire.oneshot import connection as wire
from treadle.wire.oneshot.arguments import THEIRS
from treadle.wire.oneshot.connection import mode_changed, task_lines
from treadle.wire.oneshot.content import prompt_of
from treadle.workspace import uncommitted

# The control requests of Claude Code's SDKs, each answered from the session; what cannot be done is refused.

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
            raise NotFound(f"{asked} is not a file that the agent may read without asking")
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
                    raise ConfigError("this agent accepts no new rules during a session")
                self._session.add_rule(verdict, str(rule))


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
        self._fields = FieldTable("claude", INVALID_REQUEST)
        self._hooks = hooks
        self._named = servers
        self._instructions = instructions
        self._greeting = greeting
        self._servers: dict[str, str] = {}
        """The host's MCP servers and their status."""
        self._added: list[str] = []
        """Those of them that the host added later."""
        self.queue: StreamInput | None = None
        """The prompts that have come and are not begun, by their uuids."""
        self.turns: dict[str, str] = {}
        """The uuid of a prompt -> the turn that it began."""
        self.refused = ""
        """Why `initialize` was refused: a host whose options cannot be met is not served."""

    async def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        self._look(request)
        match request.get("subtype"):
            case "initialize":
                return await self.initialize(request)
            case "interrupt":
                return await self._interrupt(cancel=request.get("cancel_queued") is True)
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
        raise NotFound(f"the control request {request.get('subtype')!r} is not supported")

    def _look(self, request: dict[str, Any]) -> None:
        """Name the fields that no one reads. One of `initialize` that is not known may be there to forbid something."""
        subtype = str(request.get("subtype"))
        try:
            unread = self._fields.judge(subtype, request)
        except Fault as refused:
            why = f"{subtype} asks for {refused}"
            if subtype == "initialize":
                self.refused = why
            raise Unsupported(why) from refused
        unknown = [name for name in unread if not self._fields.verdict(subtype, name)[0]]
        if unknown and subtype == "initialize":
            self.refused = f"initialize asks for {', '.join(unknown)}, which is not supported"
            raise Unsupported(self.refused)
        for name in unread:
            self._warn(f"{subtype}: {name} is not used here")

    async def _interrupt(self, *, cancel: bool) -> dict[str, Any]:
        """The prompts that are queued after it; with `cancel` those are withdrawn, before one of them can begin."""
        await asyncio.sleep(0)  # by then, a prompt that came before it has begun
        queued = self.queue.waiting() if self.queue is not None else []
        cancelled = [uuid for uuid in queued if cancel and self.queue is not None and self.queue.withdraw(uuid)]
        await self._runner.interrupt("interrupted by the host")
        left = self.queue.waiting() if self.queue is not None else []
        return {"still_queued": left, "cancelled": cancelled} if cancel else {"still_queued": left}

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
            raise Unsupported("files are restored between turns, not during one")
        if dry:
            raise Unsupported("a dry run of restoring files is not supported")
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


# Permission questions that a program answers, and the lasting rules that come with an answer.
#
# `--permission-prompt-tool mcp__SERVER__TOOL` sends them to a tool of an MCP server, which answers in JSON, as for
# Claude Code: `{"behavior": "allow", "updatedInput": {...}}` or `{"behavior": "deny", "message": "..."}`.

Warn = Callable[[str], None]
AskTool = Callable[[dict[str, Any]], Awaitable[str]]


async def apply(updates: Any, session: Session, warn: Warn) -> None:
    """Apply what a program allows or forbids from now on. What cannot be applied is a warning: the run goes on."""
    for update in updates if isinstance(updates, list) else ():
        table = update if isinstance(update, dict) else {}
        rules = arguments.rules_of(table)
        if table.get("type") == "setMode":
            with _warned(warn):
                await session.configure(Change(mode=parse_mode(str(table.get("mode")))))
        elif rules and isinstance(session, Adaptable):
            for verdict, rule in rules:
                with _warned(warn):
                    session.add_rule(verdict, rule)
            if table.get("destination") != "session":
                warn("the rules of a permission update apply to this session only")
        else:
            warn("a permission update of the host is ignored: such calls are asked about again")


@contextmanager
def _warned(warn: Warn) -> Iterator[None]:
    try:
        yield
    except TreadleError as error:
        warn(f"a permission update of the host is ignored: {error}")


async def put_to_tool(session: Session, ask: AskTool, warn: Warn) -> None:
    """Ask this tool every permission question of a session, until the session is closed."""
    async with asyncio.TaskGroup() as tasks:
        async for event in session.events(after=-1):
            if isinstance(event, Asked):
                tasks.create_task(_put(event, session, ask, warn))


async def _put(asked: Asked, session: Session, ask: AskTool, warn: Warn) -> None:
    question = arguments.question(asked)
    try:
        text = await ask({name: question[name] for name in ("tool_name", "input", "tool_use_id")})
        reply = msgspec.json.decode(text, type=dict[str, Any])
        answer = arguments.answered(reply, asked)
        if answer.decision == "allow":
            await apply(reply.get("updatedPermissions"), session, warn)
    except TreadleError as error:
        answer = Answer(decision="deny", text=f"the permission tool failed: {error}", by="host")
    except msgspec.MsgspecError:
        answer = Answer(decision="deny", text="the permission tool answered with no JSON object", by="host")
    try:
        await session.answer(asked.request, answer)
    except NotFound as error:
        warn(f"an answer came too late: {error}")


NO_INSTRUCTIONS = Instructions()
ASKS_BACK = ("initialize", "set_model", "mcp_set_servers")
"""Requests for which hooks and servers of the host may be asked before they are answered."""


class WaitingPrompt(NamedTuple):
    uuid: str
    record: dict[str, Any]
    of_host: bool
    """Whether the host sent it, and may take it back; otherwise it is ours."""


class StreamInput:
    """Reads records until the end of input, then finishes what was asked and returns the last exit code."""

    def __init__(
        self,
        session: Session,
        runner: OneShot,
        stream: Stream,
        warn: Callable[[str], None],
        *,
        early: Sequence[Heard] = (),
        answers: bool = True,
        hooks: HostHooks | None = None,
        servers: tuple[str, ...] = (),
        instructions: Instructions = NO_INSTRUCTIONS,
        replay: bool = False,
        resumed: bool = False,
    ) -> None:
        """`answers`: whether the host can be asked anything. `hooks`: those that the session was opened with, if any.
        `early`: what the host said before there was a session, which was opened with the `initialize` in it.

        `servers` are MCP servers in the host's own process; `instructions` are those that the session was opened with.
        With `replay` each prompt is written back, with the uuid by which the host can name it.
        """
        self._answers = answers
        self._hooks = hooks
        self._replay = replay
        self._control = HostRequests(
            session,
            runner,
            self._ask_host,
            warn,
            hooks=hooks,
            servers=servers,
            instructions=instructions,
            greeting=_table(_table(early[0]).get("request")) if early else None,
        )
        self._early = early
        self._initialized = asyncio.Event()
        self._initialized.set()
        self._configuring = 0
        """Requests at work that the next prompt waits for."""
        self._resumed = resumed
        self._begun = False
        """Whether the hooks were told that the session begins."""
        self._tasks: asyncio.TaskGroup
        self._requests: dict[str, asyncio.Future[dict[str, Any]]] = {}
        if hooks is not None:
            hooks.connect(partial(facts_of, session), self._ask_host, runner.interrupt, judge_of(session))
        self._session = session
        self._runner = runner
        self._stream = stream
        self._wire = runner.wire
        self._link = Link(stream, self._wire)
        self._warn = warn
        self._prompts: asyncio.Queue[WaitingPrompt | None] = asyncio.Queue()
        """None is the end."""
        self._queued: list[str] = []
        """The uuids of the host's prompts that are not begun."""
        self._control.queue = self
        if runner.hosting is not None:
            runner.hosting.waiting = lambda: len(self._queued)
        self._asking: dict[str, Asked] = {}
        self._background: dict[str, Task] = {}
        """The tasks in the background, as they were last."""
        self._tool_uses: Counter[str] = Counter()
        """How many tools each task has used."""

    async def run(self) -> int:
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                reading = tasks.create_task(self._read())
                asking = tasks.create_task(self._ask())
                try:
                    return await self._answer()
                finally:
                    reading.cancel()
                    asking.cancel()
        except* TreadleError as group:
            failed = group.exceptions[0]
        raise failed

    async def interrupt(self, reason: str) -> None:
        """End what is under way, and skip what was still to come."""
        while not self._prompts.empty():
            self._prompts.get_nowait()
        self._queued.clear()
        self._prompts.put_nowait(None)
        await self._runner.interrupt(reason)

    def waiting(self) -> list[str]:
        """The uuids of the prompts that have come and are not begun."""
        return list(self._queued)

    def withdraw(self, uuid: str) -> bool:
        """Forget a prompt that is not begun; False when there is none of this uuid."""
        if uuid not in self._queued:
            return False
        self._queued.remove(uuid)
        self._wire.withdrawn()
        return True

    async def _answer(self) -> int:
        code = 0
        while (given := await self._prompts.get()) is not None:
            await self._initialized.wait()
            uuid, record = given.uuid, given.record
            if uuid in self._queued:
                self._queued.remove(uuid)
            elif given.of_host:
                continue  # the host took it back
            try:
                content = prompt_of(_table(record.get("message")).get("content"))
            except Unsupported as error:
                code = await self._runner.refuse(str(error))
                continue
            if isinstance(self._session, Adaptable):
                self._session.begin_prompt()
            if self._replay:
                await self._write(wire.replayed(content.text, uuid, self._session.id))
            reason, before = await self._check_prompt(content.text)
            if reason is not None:
                refusing = self._runner.refuse if self._control.refused else self._runner.blocked
                code = await refusing(reason)
                continue
            # With `client_composed`, the host composed the prompt; no one typed it.
            code = await self._runner.run(
                before + content.text,
                content.images,
                content.documents,
                verbatim=bool(record.get("client_composed")),
                uuid=str(record.get("uuid") or ""),
            )
            if self._runner.turn is not None:
                self._control.turns[uuid] = self._runner.turn
        return code

    async def _check_prompt(self, prompt: str) -> tuple[str | None, str]:
        """A reason to refuse the prompt, or None; and what the host's hooks put in front of it."""
        if self._control.refused:
            return f"initialize was refused: {self._control.refused}", ""
        if self._hooks is None:
            return None, ""
        source, models = "resume" if self._resumed else "startup", ", ".join(self._session.info.models)
        begun = "" if self._begun else await self._hooks.started(source, models)
        self._begun = True
        reason, before = await self._hooks.prompted(prompt)
        return reason, begun + before

    async def _read(self) -> None:
        for record in self._early:
            await self._take(record)
        try:
            async for record in self._link:
                await self._take(record)
        except RemoteProtocolError as error:
            await self._take(error)
        await self._prompts.put(None)

    async def _take(self, record: wire.Record | RemoteProtocolError) -> None:
        if isinstance(record, RemoteProtocolError):
            self._warn(f"a line on stdin is ignored: {record}")
            return
        kind = record.get("type")
        if kind == "user":
            known = str(record.get("uuid") or wire.new_uuid())
            self._queued.append(known)
            await self._prompts.put(WaitingPrompt(known, record, of_host=True))
        elif kind == "control_request":
            await self._take_request(record.get("request_id", ""), _table(record.get("request")))
        elif kind == "control_response":
            await self._answered(_table(record.get("response")))
        elif kind != "keep_alive":
            self._warn(f"a record of type {kind!r} on stdin is ignored")

    # HostRequests

    async def _take_request(self, request_id: str, request: dict[str, Any]) -> None:
        """Handle a request in a task: if it needs answers of the host, as from its MCP servers, reading must go on."""
        subtype = request.get("subtype")
        if subtype in ASKS_BACK:
            self._configuring += 1
            self._initialized.clear()
        if subtype in (*ASKS_BACK, "mcp_reconnect"):
            self._tasks.create_task(self._respond(request_id, request))
        else:
            await self._respond(request_id, request)

    async def _respond(self, request_id: str, request: dict[str, Any]) -> None:
        try:
            body = {"subtype": "success", "response": await self._control.obey(request)}
        except TreadleError as error:
            body = {"subtype": "error", "error": str(error)}
        finally:
            if request.get("subtype") in ASKS_BACK:
                self._configuring -= 1
                if not self._configuring:
                    self._initialized.set()
        await self._write({"type": "control_response", "response": {**body, "request_id": request_id}})
        if request.get("subtype") == "set_permission_mode" and body["subtype"] == "success":
            await self._write(mode_changed(str(request.get("mode")), self._session.id))

    async def _ask_host(self, request: dict[str, Any]) -> dict[str, Any]:
        """A control request of ours, answered by the host."""
        request_id = wire.new_uuid()
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._requests[request_id] = answered
        try:
            await self._write({"type": "control_request", "request_id": request_id, "request": request})
            return await answered
        finally:
            del self._requests[request_id]

    async def _ask(self) -> None:
        """Pass the session's permission questions to the host, and withdraw those that no longer need an answer."""
        async for event in self._session.events(after=-1):
            if isinstance(event, Asked) and self._answers:
                request_id = wire.new_uuid()
                self._asking[request_id] = event
                asked = {"type": "control_request", "request_id": request_id, "request": arguments.question(event)}
                await self._write(asked)
            elif isinstance(event, Answered):
                for request_id in [name for name, asked in self._asking.items() if asked.request == event.request]:
                    del self._asking[request_id]
                    await self._write({"type": "control_cancel_request", "request_id": request_id})
            elif isinstance(event, TaskChanged):
                await self._tell_task(event)

    async def _tell_task(self, event: TaskChanged) -> None:
        """Tell of a background task; when it ends while nothing runs, the agent gets a turn to hear of it."""
        if event.task is not None and event.task.mode == "background":
            self._background[event.task_id] = event.task
        running = [task for task in self._background.values() if task.status in ("queued", "running")]
        self._tool_uses[event.task_id] += event.change == "tool_start"
        lines = task_lines(event, self._session.id, running, self._tool_uses[event.task_id])
        for line in lines:
            await self._write(line)
        over = lines and lines[-1]["subtype"] == "task_notification" and event.task_id in self._background
        if over and not self._runner.busy:
            words = f"The background task {event.task_id} has ended. Go on if there is something left to do."
            prompt = {"message": {"content": words}, "client_composed": True}
            await self._prompts.put(WaitingPrompt(wire.new_uuid(), prompt, of_host=False))

    async def _answered(self, response: dict[str, Any]) -> None:
        waiting = self._requests.get(str(response.get("request_id")))
        if waiting is not None and not waiting.done():
            if response.get("subtype") == "error":
                waiting.set_exception(RemoteError(str(response.get("error") or "the host failed")))
            else:
                waiting.set_result(_table(response.get("response")))
            return
        asked = self._asking.pop(str(response.get("request_id")), None)
        if asked is None:
            return
        reply = _table(response.get("response"))
        if response.get("subtype") == "error":
            reply = {"behavior": "deny", "message": str(response.get("error") or "")}
        answer = arguments.answered(reply, asked)
        if answer.decision == "allow":
            await apply(reply.get("updatedPermissions"), self._session, self._warn)
        try:
            await self._session.answer(asked.request, answer)
            if answer.decision == "deny" and reply.get("interrupt") is True:
                await self._runner.interrupt("the host ended the turn")
        except NotFound as error:
            self._warn(f"an answer came too late: {error}")

    async def _write(self, record: wire.Record) -> None:
        await self._stream.write(self._wire.send(record))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
