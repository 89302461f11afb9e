"""One thread of a client: its turns, what it is told of them, and what it is asked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, get_args

import msgspec

from treadle.doors.approvals import other_input, proposed
from treadle.errors import NotFound, RemoteError, TreadleError
from treadle.events import Answered, AnyEvent, Asked, TurnEnded, TurnStarted, Usage, Warned
from treadle.io.files import read
from treadle.io.rpc import Then
from treadle.io.tasks import end_tasks
from treadle.session import (
    Answer,
    Change,
    Choosing,
    Effort,
    Mode,
    Prompt,
    Reasoning,
    Remembering,
    Session,
    SessionSpec,
    StoredSession,
)
from treadle.wire.acp.tools import unified
from treadle.wire.codex import outgoing
from treadle.wire.codex.connection import SPEAKS
from treadle.wire.codex.outgoing import AppServerOutgoing, Notification, past
from treadle.wire.common.images import decoded
from treadle.wire.common.jsonrpc import INVALID_REQUEST, Fault
from treadle.wire.common.rpc import CallKey

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
NOT_USED = ("modelProvider", "serviceTier", "personality", "serviceTierForTurn")
"""Fields that choose among what only Codex has."""
USED = ("mcp_servers", "model_reasoning_effort")
AS_SET = "default"
"""The effort of the settings."""
REFUSED = {
    "dynamicTools": "tools of the client are not offered here",
    "environments": "other environments are not offered here",
    "lastTurnId": "a copy up to an earlier turn is not offered here",
    "toolOutput": "results of the client's own tools are not offered here",
    "outputSchema": "an answer by a schema is not offered here: `treadle exec --output-schema` does that",
}


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
        raise refused(f"the sandbox {given!r} is not offered here")
    return given


def not_used(params: dict[str, Any]) -> Iterator[str]:
    """What the client asks for and does not get, as sentences."""
    config = params.get("config")
    names = [name for name in NOT_USED if params.get(name) is not None]
    names += [f"config.{key}" for key in (config if isinstance(config, dict) else {}) if key not in USED]
    if names:
        yield f"not used here: {', '.join(names)}"
    if params.get("approvalsReviewer") not in (None, "user"):
        yield "no model decides about approvals here: you are asked, as with approvalsReviewer user"
    policy = params.get("sandboxPolicy")
    if isinstance(policy, dict) and policy.get("writableRoots"):
        yield "writableRoots is not used here: directories are added with --add-dir or in the settings"
    if isinstance(policy, dict) and policy.get("networkAccess") not in (None, False, "restricted"):
        yield "networkAccess is not used here: --network and the settings say what commands may reach"


def refuse(params: dict[str, Any]) -> None:
    for name, why in REFUSED.items():
        if params.get(name):
            raise refused(why)


def spec_of(params: dict[str, Any], base: SessionSpec, agreed: Terms) -> SessionSpec:
    """The session that a client asks for with `thread/start` and the like."""
    given = params.get("config")
    config = given if isinstance(given, dict) else {}
    servers = config.get("mcp_servers")
    table = {str(name): _server(entry) for name, entry in servers.items()} if isinstance(servers, dict) else {}
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
        tools=msgspec.structs.replace(base.tools, servers={**base.tools.servers, **table}),
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
                raise refused(f"an input of type {kind!r} is not offered here")
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


def _server(entry: Any) -> dict[str, Any]:
    table = entry if isinstance(entry, dict) else {}
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
        self.turns: list[outgoing.Item] = []
        if isinstance(session, Remembering) and spec.start.resume is not None:
            self.turns = past(session.history(), session.id, spec.cwd)
        self._title = self.turns[0]["items"][0]["content"][0]["text"] if self.turns else ""
        self._inputs: dict[str, list[outgoing.Item]] = {}
        """What the client gave with turns that have not begun yet."""
        self._starting = 0
        self._started = asyncio.Event()
        self._started.set()
        self._out: AppServerOutgoing | None = None
        self._spent = Usage()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.session.id

    def view(self, *, turns: bool = False) -> outgoing.Item:
        """The thread as answers give it."""
        listed = StoredSession(id=self.id, cwd=self._spec.cwd, title=self._title, updated=time.time())
        shown = outgoing.thread(listed, status="idle", model=self._model or None, version=SPEAKS)
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
            return Then({"turn": outgoing.turn(self.turn, "inProgress")}, _nothing)
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
        return Then({"turn": outgoing.turn(turn, "inProgress")}, self._begun)

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
        async for event in self.session.events(after=0):
            if isinstance(event, TurnStarted):
                await self._started.wait()
            await self._pass_on(event)

    async def _pass_on(self, event: AnyEvent) -> None:
        match event:
            case TurnStarted():
                await self._begin(event)
            case TurnEnded():
                await self._end(event)
            case Asked():
                await self._ask(event)
            case Answered():
                if (asking := self._asking.pop(event.request, None)) is not None:
                    asking.cancel()
            case Usage():
                await self._used(event)
            case Warned() if event.code == "gap" or self._out is None:
                if event.code != "gap":
                    await self._tell("warning", {"threadId": self.id, "message": event.message})
            case _ if self._out is not None:
                await self._say(self._out.notifications(event))

    async def _begin(self, event: TurnStarted) -> None:
        self.turn = event.turn or ""
        self.turns.append(outgoing.turn(self.turn, "inProgress", items=[]))
        self._out = AppServerOutgoing(self.id, self.turn, self._spec.cwd, self._proposed)
        await self._tell_status()
        shown = outgoing.turn(self.turn, "inProgress")
        await self._tell("turn/started", {"threadId": self.id, "turn": {**shown, "startedAt": int(event.ts)}})
        given = self._inputs.pop(self.turn, None) or [outgoing.text_input(event.prompt)]
        if event.source == "user":
            await self._say(self._out.begin(given))

    async def _end(self, event: TurnEnded) -> None:
        out, self._out = self._out, None
        if out is None:
            return
        await self._say(out.end(event))
        status = _STATUS.get(event.outcome, "failed")
        error = event.error if status == "failed" else None
        self.turns[-1] |= {"status": status, "error": outgoing.turn_error(error) if error is not None else None}
        turn, self.turn = self.turn, ""
        await self._tell_status("systemError" if status == "failed" else "idle")
        ended = {**outgoing.turn(turn, status, error=error), "completedAt": int(event.ts)}
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
        counts = {"total": outgoing.tokens(self._spent), "last": outgoing.tokens(used), "modelContextWindow": window}
        where = {"threadId": self.id, "turnId": self.turn}
        await self._tell("thread/tokenUsage/updated", {**where, "tokenUsage": counts})

    def _status(self) -> dict[str, Any]:
        if not self.turn:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if self._asking else []}

    async def _tell_status(self, kind: str = "") -> None:
        status = {"type": kind} if kind else self._status()
        await self._tell("thread/status/changed", {"threadId": self.id, "status": status})

    def _proposed(self, args: Any) -> list[outgoing.Item]:
        """The files that a call would change, as Codex shows them."""
        found = []
        for one in proposed(args, self._spec.cwd):
            path, old, new = one["path"], one.get("oldText"), one["newText"]
            kind = {"type": "add"} if old is None else {"type": "update", "move_path": None}
            diff = new if old is None else "".join(unified(path, old, new).splitlines(keepends=True)[2:])
            found.append({"path": path, "kind": kind, "diff": diff})
        return found

    # What it is asked

    async def _ask(self, asked: Asked) -> None:
        if self._out is None:
            return
        if not self.terms.asks:
            await self._settle(asked, Answer(decision="deny", text=NO_ONE, by="mode"))
            return
        shown, item = (
            self._out.asked(asked) if asked.kind == "permission" else ([], {"id": asked.call or asked.request})
        )
        await self._say(shown)
        self._asking[asked.request] = asyncio.create_task(self._put(asked, dict(item), self.turn))
        await self._tell_status()

    async def _put(self, asked: Asked, item: outgoing.Item, turn: str) -> None:
        where = {"threadId": self.id, "turnId": turn}
        keys: list[CallKey] = []

        async def call(method: str, params: dict[str, Any]) -> Any:
            return await self._ask_client(method, params, keys.append)

        try:
            decided = await put(call, where, asked, item)
        finally:
            for key in keys:  # also when it was settled otherwise: the client closes its question
                await self._tell("serverRequest/resolved", {"threadId": self.id, "requestId": key})
        self._asking.pop(asked.request, None)
        await self._tell_status()
        await self._settle(asked, decided.answer)
        if decided.stop:
            await self.interrupt(turn)

    async def _settle(self, asked: Asked, answer: Answer) -> None:
        with suppress(NotFound):  # its time has run out meanwhile
            await self.session.answer(asked.request, answer)

    async def cancel(self) -> None:
        if self.turn:
            with suppress(TreadleError):
                await self.session.interrupt(self.turn, "the client left")

    async def close(self) -> None:
        await end_tasks(*self._asking.values(), self._listening)
        await self.session.close()


def _sum(one: Usage, other: Usage) -> Usage:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in names})


async def _nothing() -> None:
    """Nothing follows the answer."""
