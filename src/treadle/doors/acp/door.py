"""Any agent for an editor that speaks the Agent Client Protocol on our stdin and stdout.

Sessions run side by side.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec

from treadle import __version__
from treadle.doors.approvals import other_input, proposed
from treadle.doors.fields import FieldTable
from treadle.doors.rpc import RpcDoor
from treadle.errors import AuthFailed, NotFound, RemoteError, TreadleError
from treadle.events import Asked, TurnEnded, Usage
from treadle.io.files import read_if_there
from treadle.io.rpc import Then
from treadle.io.streams import Stream
from treadle.policy.rules import MATRIX
from treadle.session import (
    Agent,
    Answer,
    Change,
    Choosing,
    CommandInfo,
    Effort,
    Keeping,
    Mode,
    ModelMenu,
    OfferedModel,
    Prompt,
    Reasoning,
    Remembering,
    Session,
    SessionSpec,
    Start,
)
from treadle.sessions.abilities import can
from treadle.sessions.totals import ServedTurn, Totals
from treadle.settings import config
from treadle.wire.acp.connection import (
    PROTOCOL_VERSION,
    Connection,
    as_table,
    prompt_images,
    prompt_text,
    text_block,
    unreadable,
)
from treadle.wire.acp.tools import DENIED
from treadle.wire.acp.translation import AcpOutgoing, Update, commands_update, stop_reason
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from treadle.wire.common.rpc import RpcNotice

# Puts a session's questions to the person at the editor, and turns their choice into our answer.

Caller = Callable[[str, dict[str, Any]], Awaitable[Any]]

PERMISSION = [
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "session", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
PLAN = [
    {"optionId": "once", "name": "Approve the plan", "kind": "allow_once"},
    {"optionId": "reject", "name": "Keep planning", "kind": "reject_once"},
]
_SCOPES: dict[str, Any] = {"once": "once", "session": "session", "always": "always"}
UNANSWERABLE = "the editor cannot answer in words, and no choices were given"


async def put(call: Caller, session: str, asked: Asked, tool: dict[str, Any], *, forms: bool) -> Answer:
    """`tool` is how the request names the call; `forms` says whether the client can show a form."""
    try:
        if asked.kind == "question" and (forms or not asked.options):
            return await _by_form(call, session, asked) if forms else _denied(UNANSWERABLE, by="nobody")
        options = options_of(asked)
        params = {"sessionId": session, "toolCall": tool, "options": options}
        return read_choice(asked, await call("session/request_permission", params))
    except RemoteError as error:
        return _denied(f"the editor could not be asked: {error.message}", by="nobody")


def options_of(asked: Asked) -> list[dict[str, str]]:
    if asked.kind == "permission":
        return PERMISSION
    if asked.kind == "plan":
        return PLAN
    chosen = [
        {"optionId": f"choice-{number}", "name": text, "kind": "allow_once"}
        for number, text in enumerate(asked.options)
    ]
    return [*chosen, {"optionId": "reject", "name": "Do not answer", "kind": "reject_once"}]


def read_choice(asked: Asked, result: Any) -> Answer:
    """A choice that cannot be understood is a no."""
    outcome = result.get("outcome") if isinstance(result, dict) else None
    chosen = outcome.get("optionId") if isinstance(outcome, dict) and outcome.get("outcome") == "selected" else None
    if asked.kind == "question" and isinstance(chosen, str) and chosen.startswith("choice-"):
        number = chosen.removeprefix("choice-")
        if number.isascii() and number.isdigit() and int(number) < len(asked.options):
            return Answer(decision="allow", text=asked.options[int(number)])
    if asked.kind != "question" and chosen in _SCOPES:
        return Answer(decision="allow", scope=_SCOPES[chosen], changed_args=other_input(asked, outcome, result))
    return _denied("" if chosen == "reject" else "no one chose", by="person")


async def _by_form(call: Caller, session: str, asked: Asked) -> Answer:
    field: dict[str, Any] = {"type": "string", "title": "Answer"}
    if asked.options:
        field["enum"] = list(asked.options)
    params = {
        "sessionId": session,
        "mode": "form",
        "message": asked.text,
        "requestedSchema": {"type": "object", "properties": {"answer": field}, "required": ["answer"]},
    }
    result = await call("elicitation/create", params)
    reply = result if isinstance(result, dict) else {}
    content = reply.get("content")
    text = content.get("answer") if isinstance(content, dict) else None
    if reply.get("action") == "accept" and isinstance(text, str):
        return Answer(decision="allow", text=text)
    return _denied("not answered", by="person")


def _denied(text: str, *, by: str) -> Answer:
    return Answer(decision="deny", text=text, by=by)


# What an editor can set in a session, as the protocol's config options: the mode, the model, the effort.

Option = dict[str, Any]
AS_SET = "default"
"""The effort of the settings."""


async def offered(session: Session, modes: dict[str, Any], effort: str, before: list[Option]) -> list[Option]:
    """The options with their values now. What the agent cannot change is left out. A model that was in use `before`
    can be chosen again, although the agent does not list it."""
    able = session.info.capabilities
    found = [_mode(modes)]
    if can(able, "switch_model") and (menu := await _menu(session)).current:
        found.append(_model(menu, [one["currentValue"] for one in before if one["id"] == "model"]))
    if can(able, "effort"):
        found.append(_effort(effort))
    return found


def change(options: list[Option], wanted: Any, value: Any) -> Change:
    """What choosing this value means, for any option but the mode."""
    option = next((one for one in options if one["id"] == wanted), None)
    if option is None:
        raise Fault(INVALID_PARAMS, f"there is no option {wanted!r}", {"options": [one["id"] for one in options]})
    values = [one["value"] for one in option["options"]]
    if value not in values:
        raise Fault(INVALID_PARAMS, f"{wanted} cannot be {value!r}", {"values": values})
    if wanted == "model":
        return Change(model=value)
    return Change(thinking=Reasoning() if value == AS_SET else Reasoning(effort=value))


async def _menu(session: Session) -> ModelMenu:
    """An agent that does not list its models has the one that it uses."""
    if isinstance(session, Choosing):
        try:
            return await session.menu()
        except TreadleError:  # an editor can do without the list
            pass
    models = session.info.models
    return ModelMenu(current=models[0] if models else "", offered=tuple(OfferedModel(id=name) for name in models))


def _model(menu: ModelMenu, before: list[str]) -> Option:
    listed = {name: OfferedModel(id=name) for name in (menu.current, *before)}
    listed |= {one.id: one for one in menu.offered}
    values = [
        {"value": one.id, "name": one.name or one.id, **({"description": one.description} if one.description else {})}
        for one in listed.values()
    ]
    return _select("model", "Model", "model", menu.current, values)


def _mode(modes: dict[str, Any]) -> Option:
    values = [{**mode, "value": mode["id"]} for mode in modes["availableModes"]]
    for value in values:
        del value["id"]
    return _select("mode", "Mode", "mode", modes["currentModeId"], values)


def _effort(current: str) -> Option:
    values = [{"value": AS_SET, "name": "As in the settings"}]
    values += [{"value": level, "name": level.capitalize()} for level in get_args(Effort)]
    return _select("effort", "Effort", "thought_level", current, values)


def _select(id: str, name: str, category: str, current: str, values: list[Option]) -> Option:
    common = {"id": id, "name": name, "category": category, "type": "select"}
    return {**common, "currentValue": current, "options": values}


# One open session of an editor: its prompts, questions, modes and commands.

AUTH_REQUIRED = -32000
"""The code that the Agent Client Protocol has for it."""
TITLE = 80

MODES: dict[Mode, tuple[str, str]] = {
    "suggest": ("Ask", "Reads by itself and asks before it changes files or runs commands"),
    "auto-edit": ("Edit", "Changes files by itself and asks before it runs commands"),
    "full-auto": ("Full auto", "Changes files and runs commands by itself, within the rules"),
    "plan": ("Plan", "Changes nothing and makes a plan to approve"),
    "yolo": ("No questions", "Does everything without asking, except what rules deny"),
}
assert set(MODES) == set(MATRIX)


class ClientAbilities:
    """What the editor said it can do."""

    def __init__(self, declared: Any) -> None:
        given = declared if isinstance(declared, dict) else {}
        meta = given.get("_meta")
        elicitation = given.get("elicitation")
        self.terminals = isinstance(meta, dict) and meta.get("terminal_output") is True
        self.denials = isinstance(meta, dict) and meta.get(DENIED) is True
        self.forms = isinstance(elicitation, dict) and "form" in elicitation


class Served:
    def __init__(
        self,
        session: Session,
        cwd: str,
        mode: Mode | None,
        *,
        client: ClientAbilities,
        call: Caller,
        tell: Callable[[str, dict[str, Any]], Any],
    ) -> None:
        self.session = session
        self.mode = session.info.mode or mode
        self._client = client
        self._call = call
        self._tell = tell
        self._out = AcpOutgoing(
            lambda args: proposed(args, cwd),
            terminals=client.terminals,
            denials=client.denials,
            load=read_if_there,
        )
        self._spent = Totals()
        self._turns: list[ServedTurn] = []
        self._seen = 0
        """The last event that the editor was told of."""
        self._commands: list[CommandInfo] = []
        self._titled = False
        self._options: list[dict[str, Any]] = []
        """The settings as the editor knows them."""
        self._set_up: tuple[tuple[str, ...], Mode | None] = (), None
        self._first: list[dict[str, Any]] = []
        """The settings with which the session was opened."""
        self._effort = AS_SET

    async def update(self, update: Update) -> None:
        await self._tell("session/update", {"sessionId": self.session.id, "update": update})

    # Opening

    async def replay(self) -> None:
        """Send the history, if the session knows it."""
        self._titled = True
        if isinstance(self.session, Remembering):
            for update in self._out.replayed(self.session.history()):
                await self.update(update)

    async def offer_commands(self) -> None:
        commands = self.session.commands()
        if commands != self._commands:
            self._commands = commands
            await self.update(commands_update(commands))

    def modes(self) -> dict[str, Any]:
        current = self.mode or "full-auto"
        offered = MODES if can(self.session.info.capabilities, "mode") else {current: MODES[current]}
        available = [{"id": mode, "name": name, "description": text} for mode, (name, text) in offered.items()]
        return {"currentModeId": current, "availableModes": available}

    async def set_mode(self, name: Any) -> None:
        mode = next((known for known in MODES if known == name), None)
        if mode is None:
            raise Fault(INVALID_PARAMS, f"there is no mode {name!r}", {"modes": list(MODES)})
        if mode != self.modes()["currentModeId"]:  # an agent that cannot change it offers the one that it has
            await self.session.configure(Change(mode=mode))
            self.mode = mode

    # Settings

    async def setup(self) -> dict[str, Any]:
        """What the answers that open a session have in common."""
        self._options = await offered(self.session, self.modes(), self._effort, self._first)
        self._first = self._first or self._options
        self._set_up = self.session.info.models, self.mode
        return {"modes": self.modes(), "configOptions": self._options}

    async def set_option(self, option: Any, value: Any) -> dict[str, Any]:
        if option == "mode":
            await self.set_mode(value)
            await self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        else:
            await self.session.configure(change(self._options, option, value))
            if option == "effort":
                self._effort = value
        return {"configOptions": (await self.setup())["configOptions"]}

    async def _renew_settings(self) -> None:
        """A slash command, or the agent itself, may have changed them."""
        before = self._options
        if not before or self._set_up == (self.session.info.models, self.mode):
            return
        if (await self.setup())["configOptions"] != before:
            await self.update({"sessionUpdate": "config_option_update", "configOptions": self._options})

    # A prompt

    async def prompt(self, blocks: Any) -> dict[str, Any]:
        text, images = prompt_text(blocks), prompt_images(blocks)
        if not text.strip() and not images:
            raise Fault(INVALID_PARAMS, "the prompt is empty")
        if (wrong := unreadable(blocks)) is not None:
            raise Fault(INVALID_PARAMS, f"a prompt cannot contain {wrong}")
        if not self._titled:
            self._titled = True
            await self.update({"sessionUpdate": "session_info_update", "title": " ".join(text.split())[:TITLE]})
        try:
            async with ServedTurn(
                self.session, after=self._seen, ask=self._put, left="the editor stopped listening"
            ) as served:
                if not await self._begin(served, text, images):
                    return {"stopReason": "end_turn"}
                await self._follow(served)
            return await self._result(served.ended)
        finally:
            await self.offer_commands()
            await self._renew_settings()

    async def _begin(self, served: ServedTurn, text: str, images: tuple[bytes, ...]) -> bool:
        """Whether this starts a turn, and not a command that is done already."""
        name, _, args = text.strip().removeprefix("/").partition(" ")
        if text.lstrip().startswith("/") and any(command.name == name for command in self.session.commands()):
            if images:
                raise Fault(INVALID_PARAMS, f"images came with the command /{name}, which takes none")
            result = await served.command(name, args.strip())
            if result is not None:
                if result.turn is None:
                    await self.update({"sessionUpdate": "agent_message_chunk", "content": text_block(result.message)})
                return result.turn is not None
        await served.prompt(Prompt(text=text, images=images))
        return True

    async def _follow(self, served: ServedTurn) -> None:
        self._turns.append(served)
        try:
            async for event in served:
                self._seen = served.seen
                if isinstance(event, Usage):
                    await self._used(event)
                for update in self._out.updates(event):
                    await self.update(update)
        finally:
            self._turns.remove(served)

    async def _used(self, usage: Usage) -> None:
        self._spent = self._spent.plus(usage)
        used, size = self.session.info.context_used, self.session.info.context_window
        if used is None or size is None or usage.parent is not None:
            return
        update: Update = {"sessionUpdate": "usage_update", "used": used, "size": size}
        if self._spent.cost_usd is not None:
            update["cost"] = {"amount": self._spent.cost_usd, "currency": "USD"}
        await self.update(update)

    async def _result(self, ended: TurnEnded | None) -> dict[str, Any]:
        if self.session.info.mode not in (None, self.mode):  # for example when a plan was approved
            self.mode = self.session.info.mode
            await self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        stop = stop_reason(ended) if ended is not None else "cancelled"
        if stop is None:
            error = ended.error if ended is not None else None
            code = AUTH_REQUIRED if error is not None and error.code == "auth_failed" else INTERNAL_ERROR
            data = {"code": error.code, "retryable": error.retryable} if error is not None else None
            raise Fault(code, error.message if error is not None else "the turn failed", data)
        if ended is not None and ended.outcome == "limited" and ended.error is not None:
            await self.update(_message_chunk(f"\n\n[stopped: {ended.error.message}]"))
        return {"stopReason": stop, **({"usage": self._usage()} if self._spent.calls else {})}

    def _usage(self) -> dict[str, int]:
        """Usage of the whole session, as the schema says. Cached tokens are counted besides the input."""
        spent = self._spent
        return {
            "totalTokens": spent.total_tokens,
            "inputTokens": spent.input_tokens,
            "outputTokens": spent.output_tokens,
            "thoughtTokens": spent.reasoning_tokens,
            "cachedReadTokens": spent.cache_read_tokens,
            "cachedWriteTokens": spent.cache_write_tokens,
        }

    # Questions

    async def _put(self, asked: Asked) -> Answer:
        shown, tool = self._out.asked(asked)
        for update in shown if asked.kind == "permission" else []:
            await self.update(update)
        return await put(self._call, self.session.id, asked, tool, forms=self._client.forms)

    async def cancel(self) -> None:
        for served in [*self._turns]:
            with suppress(TreadleError):
                await served.interrupt("cancelled in the editor")

    async def close(self) -> None:
        await self.session.close()


def _message_chunk(text: str) -> Update:
    return {"sessionUpdate": "agent_message_chunk", "content": text_block(text)}


RESOURCE_NOT_FOUND = -32002
LISTED = 100


class AcpDoor(RpcDoor[Served]):
    """`base` is what every session is opened with, besides what the editor says."""

    def __init__(self, agent: Agent, stream: Stream, *, base: SessionSpec, warn: Callable[[str], None]) -> None:
        super().__init__(Connection("agent"), stream, warn, FieldTable("acp", INVALID_PARAMS))
        self._agent = agent
        self._base = base
        self._client = ClientAbilities(None)
        self._methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    def _notice(self, notice: RpcNotice) -> None:
        if notice.method == "session/cancel" and (served := self._sessions.get(str(notice.params.get("sessionId")))):
            self._help(served.cancel())

    # The connection

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._client = ClientAbilities(params.get("clientCapabilities"))
        info = await self._agent.probe()
        can = info.capabilities
        sessions: dict[str, Any] = {"close": {}}
        if can.get("resume", "unsupported") != "unsupported":
            sessions["resume"] = {}
            if isinstance(self._agent, Keeping):
                sessions["list"] = {}
        if can.get("fork", "unsupported") != "unsupported":
            sessions["fork"] = {}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": "resume" in sessions,
                "promptCapabilities": {
                    "image": can.get("images", "unsupported") != "unsupported",
                    "audio": False,
                    "embeddedContext": True,
                },
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {"name": "treadle", "title": f"Treadle ({self._agent.name})", "version": __version__},
            "authMethods": [],
        }

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        raise Fault(INVALID_PARAMS, "there is nothing to sign in to here: keys come from the environment or settings")

    # Sessions

    async def _new(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(persist=self._base.start.persist))
        return Then({"sessionId": served.session.id, **await served.setup()}, served.offer_commands)

    async def _load(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(resume=_session_id(params)))
        await served.replay()
        return Then(await served.setup(), served.offer_commands)

    async def _resume(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(resume=_session_id(params)))
        return Then(await served.setup(), served.offer_commands)

    async def _fork(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(resume=_session_id(params), fork=True))
        return Then({"sessionId": served.session.id, **await served.setup()}, served.offer_commands)

    async def _open(self, params: dict[str, Any], start: Start) -> Served:
        cwd = params.get("cwd")
        if not isinstance(cwd, str) or not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise Fault(INVALID_PARAMS, f"cwd is {cwd!r}, which is not the absolute path of a directory")
        if start.resume is not None and not start.fork and (known := self._sessions.pop(start.resume, None)):
            await known.close()
        added = params.get("additionalDirectories") or []
        if not isinstance(added, list) or not all(isinstance(path, str) and os.path.isabs(path) for path in added):
            raise Fault(INVALID_PARAMS, "each of additionalDirectories must be an absolute path")
        mode = self._base.mode or config.load(cwd).settings.mode or "suggest"
        spec = msgspec.structs.replace(
            self._base, cwd=cwd, mode=mode, start=start, answers=True, add_dirs=(*self._base.add_dirs, *added)
        )
        if servers := params.get("mcpServers"):
            if not isinstance(servers, list) or not all(isinstance(one, dict) and one.get("name") for one in servers):
                raise Fault(INVALID_PARAMS, "each of mcpServers must have a name")
            tools = msgspec.structs.replace(spec.tools, servers={**spec.tools.servers, **as_table(servers)})
            spec = msgspec.structs.replace(spec, tools=tools)
        try:
            session = await self._agent.open(spec)
        except NotFound as error:
            raise Fault(RESOURCE_NOT_FOUND, str(error)) from error
        except AuthFailed as error:
            raise Fault(AUTH_REQUIRED, str(error)) from error
        served = Served(session, cwd, mode, client=self._client, call=self._rpc.call, tell=self._rpc.tell)
        self._sessions[session.id] = served
        return served

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(self._agent, Keeping):
            raise Fault(METHOD_NOT_FOUND, f"{self._agent.name} keeps no list of its sessions")
        cwd, cursor = params.get("cwd"), params.get("cursor")
        stored = await self._agent.stored_sessions(cwd if isinstance(cwd, str) else None)
        first = int(cursor) if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() else 0
        page = stored[first : first + LISTED]
        listed = [
            {
                "sessionId": one.id,
                "cwd": one.cwd,
                "title": one.title or None,
                "updatedAt": datetime.fromtimestamp(one.updated, UTC).isoformat(),
            }
            for one in page
        ]
        more = {"nextCursor": str(first + LISTED)} if len(stored) > first + LISTED else {}
        return {"sessions": listed, **more}

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        served = self._find(params)
        del self._sessions[served.session.id]
        await served.close()
        return {}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._find(params).prompt(params.get("prompt"))

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        await self._find(params).set_mode(params.get("modeId"))
        return {}

    async def _set_option(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._find(params).set_option(params.get("configId"), params.get("value"))

    def _find(self, params: dict[str, Any]) -> Served:
        served = self._sessions.get(_session_id(params))
        if served is None:
            raise Fault(RESOURCE_NOT_FOUND, f"no open session {params.get('sessionId')!r}")
        return served


def _session_id(params: dict[str, Any]) -> str:
    given = params.get("sessionId")
    if not isinstance(given, str) or not given:
        raise Fault(INVALID_PARAMS, "a sessionId is needed")
    return given
