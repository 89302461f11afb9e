"""Any agent for clients of Codex's app-server: its SDK for Python, and editors whose plug-ins drive Codex.

They start us as they would start `codex app-server`. Methods that only Codex has are refused with the reason.
"""

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, get_args

import msgspec

from treadle import __version__
from treadle.doors.approvals import other_input, proposed
from treadle.doors.fields import FieldTable
from treadle.doors.rpc import RpcDoor
from treadle.errors import NotFound, RemoteError, TreadleError
from treadle.events import AnyEvent, Asked, TurnEnded, TurnStarted, Usage, Warned
from treadle.io.files import read
from treadle.io.paths import state_dir
from treadle.io.rpc import Then
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks
from treadle.session import (
    Agent,
    Answer,
    Change,
    Choosing,
    Effort,
    Keeping,
    Mode,
    ModelMenu,
    Prompt,
    Reasoning,
    Remembering,
    Session,
    SessionSpec,
    Start,
    StoredSession,
)
from treadle.sessions.abilities import can
from treadle.sessions.totals import ServedTurn
from treadle.settings import config
from treadle.wire.acp.tools import unified
from treadle.wire.codex import translation
from treadle.wire.codex.connection import SPEAKS, Connection
from treadle.wire.codex.translation import AppServerOutgoing, Notification, past
from treadle.wire.common.images import decoded
from treadle.wire.common.jsonrpc import INVALID_REQUEST, Fault
from treadle.wire.common.rpc import CallKey, RpcCall
from treadle.wire.mcp.connection import tool_name

# One thread of a client: its turns, what it is told of them, and what it is asked.

# What a client of Codex says of a thread and a turn, in our terms. What has no meaning here is refused or named.

POLICIES = ("untrusted", "on-request", "never")
SANDBOXES = {"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access"}
_MODES: dict[str, Mode] = {"read-only": "suggest", "workspace-write": "full-auto", "danger-full-access": "yolo"}
_SANDBOX: dict[Mode, str] = {
    "full-auto": "workspace-write",
    "auto-edit": "workspace-write",
    "yolo": "danger-full-access",
}
_SERVER_KEYS = {"command", "args", "env", "cwd", "url"}
_SERVER_USED = {*_SERVER_KEYS, "http_headers", "enabled", "enabled_tools", "disabled_tools"}
USED = ("mcp_servers", "model_reasoning_effort")
AS_SET = "default"
"""The effort of the settings."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread may do without a question, as the client said it."""

    mode: Mode
    policy: str
    sandbox: str

    @property
    def asks(self) -> bool:
        return self.policy != "never"

    def as_policy(self) -> dict[str, Any]:
        """The sandbox as the answers to a client have it."""
        kind = next(name for name, ours in SANDBOXES.items() if ours == self.sandbox)
        more: dict[str, Any] = {"networkAccess": False} if kind == "readOnly" else {}
        if kind == "workspaceWrite":
            more = {"writableRoots": [], "networkAccess": False, "excludeTmpdirEnvVar": False, "excludeSlashTmp": False}
        return {"type": kind, **more}


def terms(params: dict[str, Any], before: Terms | Mode) -> Terms:
    """`before` holds for what the client does not say."""
    policy, sandbox = params.get("approvalPolicy"), _sandbox(params)
    if isinstance(before, str):
        before = Terms(mode=before, policy="on-request", sandbox=_SANDBOX.get(before, "read-only"))
    if policy is None and sandbox is None:
        return before
    if isinstance(policy, dict):
        policy = "on-request"
    if policy is not None and policy not in POLICIES:
        raise refused(f"there is no approvalPolicy {policy!r}")
    policy, sandbox = policy or before.policy, sandbox or before.sandbox
    mode: Mode = "suggest" if policy == "untrusted" else _MODES[sandbox]
    return Terms(mode=mode, policy=policy, sandbox=sandbox)


def _sandbox(params: dict[str, Any]) -> str | None:
    given = params.get("sandbox")
    policy = params.get("sandboxPolicy")
    if isinstance(policy, dict):
        given = SANDBOXES.get(str(policy.get("type")), policy.get("type"))
    if given is not None and given not in _MODES:
        raise refused(f"the sandbox {given!r} is not supported")
    return given


def not_used(params: dict[str, Any]) -> Iterator[str]:
    """What the client asks for inside a field and does not get, as sentences."""
    given = params.get("config")
    config = given if isinstance(given, dict) else {}
    names = [f"config.{key}" for key in config if key not in USED]
    for server, entry in _tables(config.get("mcp_servers")):
        names += [f"config.mcp_servers.{server}.{key}" for key in entry if key not in _SERVER_USED]
    if names:
        yield f"not used here: {', '.join(names)}"
    if params.get("approvalsReviewer") not in (None, "user"):
        yield "no model decides about approvals here: you are asked, as with approvalsReviewer user"
    policy = params.get("sandboxPolicy")
    if isinstance(policy, dict) and policy.get("writableRoots"):
        yield "writableRoots is not used here: directories are added with --add-dir or in the settings"
    if isinstance(policy, dict) and policy.get("networkAccess") not in (None, False, "restricted"):
        yield "networkAccess is not used here: --network and the settings say what commands may reach"


def spec_of(params: dict[str, Any], base: SessionSpec, agreed: Terms) -> SessionSpec:
    """The session that a client asks for with `thread/start` and the like."""
    given = params.get("config")
    config = given if isinstance(given, dict) else {}
    servers, denied = dict(base.tools.servers), list(base.rules.deny)
    for name, entry in _tables(config.get("mcp_servers")):
        if entry.get("enabled_tools"):
            raise refused(f"enabled_tools of {name} is not supported: name the others in disabled_tools")
        denied += [tool_name(name, str(tool)) for tool in entry.get("disabled_tools") or ()]
        servers[name] = _server(entry)
        if entry.get("enabled") is False:
            del servers[name]
    instructions = base.instructions
    return msgspec.structs.replace(
        base,
        mode=agreed.mode,
        model=_text(params, "model") or base.model,
        instructions=msgspec.structs.replace(
            instructions,
            system=_text(params, "baseInstructions") or instructions.system,
            append=_text(params, "developerInstructions") or instructions.append,
        ),
        tools=msgspec.structs.replace(base.tools, servers=servers),
        rules=msgspec.structs.replace(base.rules, deny=tuple(denied)),
        thinking=effort(config.get("model_reasoning_effort")) or base.thinking,
        answers=True,
    )


def effort(given: Any) -> Reasoning | None:
    if given in (None, AS_SET):
        return None
    if given not in get_args(Effort):
        raise refused(f"there is no effort {given!r}: {', '.join(get_args(Effort))}")
    return Reasoning(effort=given)


def prompt_of(given: Any) -> Prompt:
    """The prompt of a turn. An input that cannot be given to an agent is refused."""
    texts: list[str] = []
    images: list[bytes] = []
    for part in given if isinstance(given, list) else []:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "url": str(url)} if url.startswith("data:"):
                images.append(decoded(url.partition(",")[2]))
            case {"type": "localImage", "path": str(path)}:
                images.append(_file(path))
            case {"type": "mention", "name": str(name), "path": str(path)}:
                texts.append(f"[{name}: {path}]")
            case _:
                kind = part.get("type") if isinstance(part, dict) else part
                raise refused(f"an input of type {kind!r} is not supported")
    text = "\n".join(texts)
    if not text.strip() and not images:
        raise refused("the input is empty")
    return Prompt(text=text, images=tuple(images))


def refused(why: str) -> Fault:
    """Codex has one code for everything that it refuses."""
    return Fault(INVALID_REQUEST, why)


def _file(path: str) -> bytes:
    try:
        return read(path)
    except TreadleError as error:
        raise refused(str(error)) from error


def _tables(servers: Any) -> list[tuple[str, dict[str, Any]]]:
    found = servers.items() if isinstance(servers, dict) else ()
    return [(str(name), entry if isinstance(entry, dict) else {}) for name, entry in found]


def _server(table: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in table.items() if key in _SERVER_KEYS}
    if isinstance(table.get("http_headers"), dict):
        found["headers"] = table["http_headers"]
    return found


def _text(params: dict[str, Any], name: str) -> str | None:
    given = params.get(name)
    return given if isinstance(given, str) and given else None


# Puts a session's questions to a client of Codex, in the form that it knows, and reads its answer.
#
# A decision that cannot be carried out as it was given, such as one with a rule of Codex's own, is a denial.

Caller = Callable[[str, dict[str, Any]], Awaitable[Any]]
DECISIONS = ["accept", "acceptForSession", "decline", "cancel"]
APPROVE, KEEP_PLANNING = "Approve the plan", "Keep planning"


class Decided(NamedTuple):
    answer: Answer
    stop: bool = False
    """Whether the turn is to end, too."""


async def put(call: Caller, where: dict[str, Any], asked: Asked, item: dict[str, Any]) -> Decided:
    """`where` names the thread and the turn, `item` is how the call was shown."""
    try:
        if asked.kind != "permission":
            return _answered(asked, await call("item/tool/requestUserInput", _questions(where, asked, item)))
        about = {**where, "itemId": item["id"], "startedAtMs": int(asked.ts * 1000), "reason": asked.text or None}
        match item["type"]:
            case "commandExecution":
                more = {name: item[name] for name in ("command", "cwd", "commandActions")}
                extra = {"kind": "command", "environmentId": None, "availableDecisions": DECISIONS}
                return _decided(asked, await call("item/commandExecution/requestApproval", {**about, **more, **extra}))
            case "fileChange":
                return _decided(asked, await call("item/fileChange/requestApproval", {**about, "grantRoot": None}))
            case _:
                return _accepted(asked, await call("mcpServer/elicitation/request", _elicitation(where, asked, item)))
    except RemoteError as error:
        return Decided(_denied(f"the client could not be asked: {error.message}", by="nobody"))


def _decided(asked: Asked, reply: Any) -> Decided:
    decision = reply.get("decision") if isinstance(reply, dict) else None
    match decision:
        case "accept":
            return Decided(Answer(decision="allow", changed_args=other_input(asked, reply)))
        case "acceptForSession":
            return Decided(Answer(decision="allow", scope="session", changed_args=other_input(asked, reply)))
        case "decline":
            return Decided(_denied(""))
        case "cancel":
            return Decided(_denied(""), stop=True)
    return Decided(_denied("the decision cannot be carried out here as it was given"))


def _elicitation(where: dict[str, Any], asked: Asked, item: dict[str, Any]) -> dict[str, Any]:
    """Codex asks in this way whether a tool of an MCP server may run."""
    about = {"codex_approval_kind": "mcp_tool_call", "tool_params": item["arguments"]}
    message = f'Allow the {item["server"]} MCP server to run tool "{item["tool"]}"?'
    return {
        **where,
        "serverName": item["server"],
        "mode": "form",
        "message": f"{message} {asked.text}".rstrip(),
        "requestedSchema": {"type": "object", "properties": {}},
        "_meta": about,
    }


def _accepted(asked: Asked, reply: Any) -> Decided:
    action = reply.get("action") if isinstance(reply, dict) else None
    meta = reply.get("_meta") if isinstance(reply, dict) else None
    if action == "accept":
        lasting = isinstance(meta, dict) and meta.get("persist") in ("session", "always")
        changed = other_input(asked, reply, reply.get("content"))
        return Decided(Answer(decision="allow", scope="session" if lasting else "once", changed_args=changed))
    return Decided(_denied("" if action == "decline" else "no one decided"), stop=action == "cancel")


def _questions(where: dict[str, Any], asked: Asked, item: dict[str, Any]) -> dict[str, Any]:
    labels = (APPROVE, KEEP_PLANNING) if asked.kind == "plan" else asked.options
    question = {
        "id": asked.request,
        "header": asked.kind.capitalize(),
        "question": asked.text,
        "isOther": asked.kind == "question",
        "isSecret": False,
        "options": [{"label": label, "description": ""} for label in labels] or None,
    }
    return {**where, "itemId": item["id"], "questions": [question], "isBlocking": True, "autoResolutionMs": None}


def _answered(asked: Asked, reply: Any) -> Decided:
    answers = reply.get("answers") if isinstance(reply, dict) else None
    given = answers.get(asked.request) if isinstance(answers, dict) else None
    texts = given.get("answers") if isinstance(given, dict) else None
    text = "\n".join(map(str, texts)) if isinstance(texts, list) else ""
    if asked.kind == "plan":
        return Decided(Answer(decision="allow") if text == APPROVE else _denied("" if text == KEEP_PLANNING else text))
    return Decided(Answer(decision="allow", text=text) if text else _denied("not answered"))


def _denied(text: str, *, by: str = "person") -> Answer:
    return Answer(decision="deny", text=text, by=by)


Tell = Callable[[str, dict[str, Any]], Awaitable[None]]
Ask = Callable[[str, dict[str, Any], Callable[[CallKey], None]], Awaitable[Any]]
_STATUS = {"completed": "completed", "interrupted": "interrupted"}
NO_ONE = "the client's approvalPolicy is never, so no one is asked"


class OpenThread:
    def __init__(self, session: Session, spec: SessionSpec, agreed: Terms, *, tell: Tell, ask: Ask) -> None:
        self.session = session
        self.terms = agreed
        self.turn = ""
        """The turn that runs now."""
        self._spec = spec
        self._tell = tell
        self._ask_client = ask
        self._model = ""
        """The model, by the name that chooses it."""
        self.turns: list[translation.Item] = []
        if isinstance(session, Remembering) and spec.start.resume is not None:
            self.turns = past(session.history(), session.id, spec.cwd)
        self._title = self.turns[0]["items"][0]["content"][0]["text"] if self.turns else ""
        self._inputs: dict[str, list[translation.Item]] = {}
        """What the client gave with turns that have not begun yet."""
        self._starting = 0
        self._started = asyncio.Event()
        self._started.set()
        self._out: AppServerOutgoing | None = None
        self._spent = Usage()
        self._served: ServedTurn | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.session.id

    def view(self, *, turns: bool = False) -> translation.Item:
        """The thread as answers give it."""
        listed = StoredSession(id=self.id, cwd=self._spec.cwd, title=self._title, updated=time.time())
        shown = translation.thread(listed, status="idle", model=self._model or None, version=SPEAKS)
        shown |= {"ephemeral": not self._spec.start.persist, "status": self._status()}
        return {**shown, "turns": self.turns} if turns else shown

    def opened(self, *, turns: bool) -> dict[str, Any]:
        """The answer that opens a thread."""
        return {
            "thread": self.view(turns=turns),
            "model": self._model,
            "modelProvider": "treadle",
            "serviceTier": None,
            "disabledPluginIds": [],
            "cwd": self._spec.cwd,
            "instructionSources": [],
            "approvalPolicy": self.terms.policy,
            "approvalsReviewer": "user",
            "sandbox": self.terms.as_policy(),
            "reasoningEffort": self._spec.thinking.effort,
        }

    async def look(self) -> None:
        """Find out which model it has."""
        self._model = next(iter(self.session.info.models), "")
        if isinstance(self.session, Choosing):
            with suppress(TreadleError):
                self._model = (await self.session.menu()).current or self._model

    async def listen(self) -> None:
        """Begin to tell what happens, warnings from before the first turn included."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._follow(), name=f"thread {self.id}")

    # What the client wants

    async def start(self, params: dict[str, Any]) -> Then:
        prompt = prompt_of(params.get("input"))
        if self.turn and not prompt.images and await self.session.steer(self.turn, prompt.text):
            return Then({"turn": translation.turn(self.turn, "inProgress")}, _nothing)
        await self._configure(params)
        self._starting += 1
        self._started.clear()
        try:
            turn = await self.session.prompt(prompt)
        except BaseException:
            self._release()
            raise
        self._inputs[turn] = params["input"]
        self._title = self._title or prompt.text
        return Then({"turn": translation.turn(turn, "inProgress")}, self._begun)

    async def _begun(self) -> None:
        """The answer that names the turn is sent: what happens in it may be told."""
        self._release()

    def _release(self) -> None:
        self._starting -= 1
        if not self._starting:
            self._started.set()

    async def steer(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("expectedTurnId")
        if not self.turn:
            raise refused("no active turn to steer")
        if wanted != self.turn:
            raise refused(f"expected active turn id `{wanted}` but found `{self.turn}`")
        prompt = prompt_of(params.get("input"))
        if prompt.images:
            raise refused("images cannot be added to a running turn")
        if not await self.session.steer(self.turn, prompt.text):
            raise refused("the turn has no step left that could take it")
        return {"turnId": self.turn}

    async def interrupt(self, turn: str) -> None:
        await self.session.interrupt(turn, "interrupted by the client")

    async def _configure(self, params: dict[str, Any]) -> None:
        """What a turn changes holds for those after it, too."""
        cwd, model = params.get("cwd"), params.get("model")
        if isinstance(cwd, str) and cwd != self._spec.cwd:
            raise refused(f"a thread keeps its directory, {self._spec.cwd}: start another in {cwd}")
        agreed = terms(params, self.terms)
        if agreed.mode != self.terms.mode:
            await self.session.configure(Change(mode=agreed.mode))
        self.terms = agreed
        if isinstance(model, str) and model and model != self._model:
            await self.session.configure(Change(model=model))
            self._model = model
        if (wanted := effort(params.get("effort"))) is not None and wanted != self._spec.thinking:
            await self.session.configure(Change(thinking=wanted))
            self._spec = msgspec.structs.replace(self._spec, thinking=wanted)

    # What it is told

    async def _follow(self) -> None:
        """Each turn that begins, also one that the agent began by itself, and what happens between them."""
        seen = 0
        while True:
            async with ServedTurn(
                self.session, after=seen, ask=self._ask, left="the client left", beside=True
            ) as self._served:
                async for event in self._served:
                    if isinstance(event, TurnStarted):
                        await self._started.wait()
                    await self._pass_on(event)
            if self._served.ended is None:
                return
            seen = self._served.seen

    async def _pass_on(self, event: AnyEvent) -> None:
        match event:
            case TurnStarted():
                await self._begin(event)
            case TurnEnded():
                await self._end(event)
            case Usage():
                await self._used(event)
            case Warned() if event.code == "gap" or self._out is None:
                if event.code != "gap":
                    await self._tell("warning", {"threadId": self.id, "message": event.message})
            case _ if self._out is not None:
                await self._say(self._out.notifications(event))

    async def _begin(self, event: TurnStarted) -> None:
        self.turn = event.turn or ""
        self.turns.append(translation.turn(self.turn, "inProgress", items=[]))
        self._out = AppServerOutgoing(self.id, self.turn, self._spec.cwd, self._proposed)
        await self._tell_status()
        shown = translation.turn(self.turn, "inProgress")
        await self._tell("turn/started", {"threadId": self.id, "turn": {**shown, "startedAt": int(event.ts)}})
        given = self._inputs.pop(self.turn, None) or [translation.text_input(event.prompt)]
        if event.source == "user":
            await self._say(self._out.begin(given))

    async def _end(self, event: TurnEnded) -> None:
        out, self._out = self._out, None
        if out is None:
            return
        await self._say(out.end(event))
        status = _STATUS.get(event.outcome, "failed")
        error = event.error if status == "failed" else None
        self.turns[-1] |= {"status": status, "error": translation.turn_error(error) if error is not None else None}
        turn, self.turn = self.turn, ""
        await self._tell_status("systemError" if status == "failed" else "idle")
        ended = {**translation.turn(turn, status, error=error), "completedAt": int(event.ts)}
        await self._tell("turn/completed", {"threadId": self.id, "turn": ended})

    async def _say(self, notices: list[Notification]) -> None:
        for method, params in notices:
            if method == "item/completed":
                self.turns[-1]["items"].append(params["item"])
            await self._tell(method, params)

    async def _used(self, used: Usage) -> None:
        self._spent = _sum(self._spent, used)
        if used.parent is not None or not self.turn:
            return
        window = self.session.info.context_window
        counts = {
            "total": translation.tokens(self._spent),
            "last": translation.tokens(used),
            "modelContextWindow": window,
        }
        where = {"threadId": self.id, "turnId": self.turn}
        await self._tell("thread/tokenUsage/updated", {**where, "tokenUsage": counts})

    def _status(self) -> dict[str, Any]:
        if not self.turn:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if self._questions else []}

    async def _tell_status(self, kind: str = "") -> None:
        status = {"type": kind} if kind else self._status()
        await self._tell("thread/status/changed", {"threadId": self.id, "status": status})

    def _proposed(self, args: Any) -> list[translation.Item]:
        """The files that a call would change, as Codex shows them."""
        found = []
        for one in proposed(args, self._spec.cwd):
            path, old, new = one["path"], one.get("oldText"), one["newText"]
            kind = {"type": "add"} if old is None else {"type": "update", "move_path": None}
            diff = new if old is None else "".join(unified(path, old, new).splitlines(keepends=True)[2:])
            found.append({"path": path, "kind": kind, "diff": diff})
        return found

    # What it is asked

    @property
    def _questions(self) -> dict[str, Asked]:
        return {} if self._served is None else self._served.questions

    async def _ask(self, asked: Asked) -> Answer | None:
        if self._out is None or self._served is None:
            return None
        if not self.terms.asks:
            return Answer(decision="deny", text=NO_ONE, by="mode")
        shown, item = (
            self._out.asked(asked) if asked.kind == "permission" else ([], {"id": asked.call or asked.request})
        )
        await self._say(shown)
        await self._tell_status()
        decided = await self._put(asked, dict(item))
        self._questions.pop(asked.request, None)
        await self._tell_status()
        await self._served.answer(asked.request, decided.answer)  # if its time has run out meanwhile, an event says so
        if decided.stop:
            await self.interrupt(asked.turn)
        return None

    async def _put(self, asked: Asked, item: translation.Item) -> Decided:
        keys: list[CallKey] = []

        async def call(method: str, params: dict[str, Any]) -> Any:
            return await self._ask_client(method, params, keys.append)

        try:
            return await put(call, {"threadId": self.id, "turnId": asked.turn}, asked, item)
        finally:
            for key in keys:  # also when it was settled otherwise: the client closes its question
                await self._tell("serverRequest/resolved", {"threadId": self.id, "requestId": key})

    async def cancel(self) -> None:
        if self._served is not None:
            with suppress(TreadleError):
                await self._served.interrupt("the client left")

    async def close(self) -> None:
        await end_tasks(self._listening)
        await self.session.close()


def _sum(one: Usage, other: Usage) -> Usage:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in names})


async def _nothing() -> None:
    """Nothing follows the answer."""


LISTED = 50
"""How many threads a list has, unless the client says otherwise."""


class AppServerDoor(RpcDoor[OpenThread]):
    """`base` is what every thread is opened with, besides what the client says."""

    def __init__(self, agent: Agent, stream: Stream, *, base: SessionSpec, warn: Callable[[str], None]) -> None:
        super().__init__(Connection("server"), stream, warn, FieldTable("codex", INVALID_REQUEST))
        self._agent = agent
        self._base = base
        self._unwanted: set[str] = set()
        """Notifications that the client does not want."""
        self._named: set[str] = set()
        self._models: list[dict[str, Any]] | None = None
        self._methods = {
            "initialize": self._initialize,
            "thread/start": self._start,
            "thread/resume": self._resume,
            "thread/fork": self._fork,
            "thread/list": self._list,
            "thread/loaded/list": self._loaded,
            "thread/read": self._read_thread,
            "thread/turns/list": self._turns,
            "thread/unsubscribe": self._unsubscribe,
            "thread/compact/start": self._compact,
            "turn/start": self._start_turn,
            "turn/steer": self._steer,
            "turn/interrupt": self._interrupt,
            "model/list": self._list_models,
            "account/read": self._account,
            "config/read": self._config,
            "skills/list": _none_of_these,
            "hooks/list": _none_of_these,
            "mcpServerStatus/list": _none_of_these,
            "experimentalFeature/list": _none_of_these,
            "permissionProfile/list": _none_of_these,
        }

    def _unknown(self, method: str) -> str:
        return f"{method} is not supported; offered are {', '.join(sorted(self._methods))}"

    async def _tell(self, method: str, params: dict[str, Any]) -> None:
        if method not in self._unwanted:
            await self._rpc.tell(method, params)

    async def _ask(self, method: str, params: dict[str, Any], noted: Callable[[CallKey], None]) -> Any:
        return await self._rpc.call(method, params, noted)

    # The connection

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("capabilities")
        unwanted = given.get("optOutNotificationMethods") if isinstance(given, dict) else None
        self._unwanted = set(map(str, unwanted)) if isinstance(unwanted, list) else set()
        return {
            "userAgent": f"treadle/{SPEAKS} (treadle {__version__}; {self._agent.name})",
            "codexHome": state_dir(),
            "platformFamily": "unix",
            "platformOs": platform.system().lower(),
        }

    async def _account(self, params: dict[str, Any]) -> dict[str, Any]:
        """Keys come from the environment or settings: there is nothing to sign in to here."""
        return {"account": None, "requiresOpenaiAuth": False}

    async def _config(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"config": {"model": self._base.model}, "origins": {}, "layers": None}

    async def _list_models(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._models is None:
            opened = next(iter(self._sessions.values()), None)
            if opened is not None:
                self._models = await _menu(opened.session)
            else:  # the agent knows them only in a session
                looking = ("unsaved",)
                base = msgspec.structs.replace(self._base, mode="suggest", start=Start(persist=False), routine=looking)
                session = await self._agent.open(base)
                try:
                    self._models = await _menu(session)
                finally:
                    await session.close()
        return {"data": self._models, "nextCursor": None}

    # Threads

    async def _start(self, params: dict[str, Any]) -> Then:
        persist = self._base.start.persist and not params.get("ephemeral")
        return await self._opened(params, Start(persist=persist))

    async def _resume(self, params: dict[str, Any]) -> Then:
        wanted = _thread_id(params)
        if (known := self._sessions.get(wanted)) is not None:
            return Then(_resumed(known, params), known.listen)
        return await self._opened(params, Start(resume=wanted))

    async def _fork(self, params: dict[str, Any]) -> Then:
        return await self._opened(params, Start(resume=_thread_id(params), fork=True))

    async def _opened(self, params: dict[str, Any], start: Start) -> Then:
        cwd = params.get("cwd") or (await self._place(start.resume) if start.resume else self._base.cwd)
        if not isinstance(cwd, str) or not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise refused(f"cwd is {cwd!r}, which is not the absolute path of a directory")
        agreed = terms(params, self._base.mode or config.load(cwd).settings.mode or "suggest")
        spec = msgspec.structs.replace(spec_of(params, self._base, agreed), cwd=cwd, start=start)
        try:
            session = await self._agent.open(spec)
        except NotFound as error:
            raise refused(f"no rollout found for thread id {start.resume}: {error}") from error
        thread = OpenThread(session, spec, agreed, tell=self._tell, ask=self._ask)
        await thread.look()
        self._sessions[thread.id] = thread

        async def then() -> None:
            await self._name(thread.id, params)
            await self._tell("thread/started", {"thread": thread.view()})
            await thread.listen()

        return Then(thread.opened(turns=False) if start.resume is None else _resumed(thread, params), then)

    async def _place(self, thread: str) -> str:
        """Where a thread was at work. An agent that keeps no list is told the directory by its client."""
        stored = await self._agent.stored_sessions() if isinstance(self._agent, Keeping) else []
        return next((one.cwd for one in stored if one.id == thread and one.cwd), self._base.cwd)

    async def _name(self, thread: str, params: dict[str, Any]) -> None:
        """Say once what the client asks for and does not get."""
        for sentence in not_used(params):
            if sentence not in self._named:
                self._named.add(sentence)
                await self._tell("warning", {"threadId": thread, "message": sentence})

    async def _tell_unread(self, call: RpcCall, sentence: str) -> None:
        if call.method == "initialize":  # before its answer, a client is told nothing
            return await super()._tell_unread(call, sentence)
        await self._tell("warning", {"threadId": call.params.get("threadId"), "message": sentence})

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("cwd")
        places = [wanted] if isinstance(wanted, str) else wanted
        stored = await self._stored(places[0] if isinstance(places, list) and len(places) == 1 else None)
        word, archived = str(params.get("searchTerm") or "").lower(), bool(params.get("archived"))
        found = [
            one for one in stored if not archived and (not places or one.cwd in places) and word in one.title.lower()
        ]
        limit, cursor = params.get("limit"), params.get("cursor")
        count = limit if isinstance(limit, int) and limit > 0 else LISTED
        first = int(cursor) if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() else 0
        page = [self._listed(one) for one in found[first : first + count]]
        more = str(first + count) if len(found) > first + count else None
        return {"data": page, "nextCursor": more, "backwardsCursor": None}

    async def _stored(self, cwd: str | None) -> list[StoredSession]:
        return await self._agent.stored_sessions(cwd) if isinstance(self._agent, Keeping) else []

    def _listed(self, one: StoredSession) -> dict[str, Any]:
        if (opened := self._sessions.get(one.id)) is not None:
            return opened.view()
        return translation.thread(one, status="notLoaded", model=None, version=SPEAKS)

    async def _loaded(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"data": list(self._sessions), "nextCursor": None}

    async def _read_thread(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted, whole = _thread_id(params), bool(params.get("includeTurns"))
        if (opened := self._sessions.get(wanted)) is not None:
            return {"thread": opened.view(turns=whole)}
        if whole:
            raise refused(f"thread {wanted} is not loaded: its turns can be read after thread/resume")
        found = next((one for one in await self._stored(None) if one.id == wanted), None)
        if found is None:
            raise refused(f"no rollout found for thread id {wanted}")
        return {"thread": self._listed(found)}

    async def _turns(self, params: dict[str, Any]) -> dict[str, Any]:
        turns = self._find(params).turns
        newest = turns if params.get("sortDirection") == "asc" else turns[::-1]
        return {"data": newest, "nextCursor": None, "backwardsCursor": None}

    async def _unsubscribe(self, params: dict[str, Any]) -> Then:
        thread = self._sessions.pop(_thread_id(params), None)
        if thread is None:
            return Then({"status": "notLoaded"}, _nothing)
        name = thread.id
        await thread.close()
        return Then({"status": "unsubscribed"}, lambda: self._tell("thread/closed", {"threadId": name}))

    async def _compact(self, params: dict[str, Any]) -> Then:
        session = self._find(params).session
        if not any(command.name == "compact" for command in session.commands()):
            raise refused(f"{self._agent.name} has no command to compact a conversation")

        async def compact() -> None:
            try:
                await session.command("compact", "")
            except TreadleError as error:
                await self._tell("warning", {"threadId": session.id, "message": str(error)})

        async def then() -> None:
            self._help(compact())

        return Then({}, then)

    # Turns

    async def _start_turn(self, params: dict[str, Any]) -> Then:
        thread = self._find(params)
        await self._name(thread.id, params)
        return await thread.start(params)

    async def _steer(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._find(params).steer(params)

    async def _interrupt(self, params: dict[str, Any]) -> dict[str, Any]:
        await self._find(params).interrupt(str(params.get("turnId")))
        return {}

    def _find(self, params: dict[str, Any]) -> OpenThread:
        thread = self._sessions.get(_thread_id(params))
        if thread is None:
            raise refused(f"thread not found: {params.get('threadId')}")
        return thread


def _resumed(thread: OpenThread, params: dict[str, Any]) -> dict[str, Any]:
    more = dict.fromkeys(("collaborationMode", "turnsBackwardsCursor", "itemsBackwardsCursor"))
    return {**thread.opened(turns=not params.get("excludeTurns")), **more}


async def _menu(session: Any) -> list[dict[str, Any]]:
    able = session.info.capabilities
    efforts = [AS_SET, *(get_args(Effort) if can(able, "effort") else ())]
    menu = (
        await session.menu() if isinstance(session, Choosing) else ModelMenu(current="".join(session.info.models[:1]))
    )
    return translation.models(menu, efforts, images=can(able, "images"))


async def _none_of_these(params: dict[str, Any]) -> dict[str, Any]:
    """Lists that editors ask for; those of an agent are not known to us."""
    return {"data": [], "nextCursor": None}


def _thread_id(params: dict[str, Any]) -> str:
    given = params.get("threadId")
    if not isinstance(given, str) or not given:
        raise refused("a threadId is needed")
    return given
