"""Any program that speaks the worker wire as a Session: our own worker, or another vendor's.

A fault of the worker ends in an error that says what it did, with its exit code and last words, and nothing of its
process tree is left. Harmless differences (unknown events and fields, a late heartbeat, no usage) are accepted. Limits
that it does not keep are enforced here: by a cancel first, and by a kill when that has no effect.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import asdict, replace

from treadle.drivers.card import Card, Launch, Level
from treadle.drivers.confined import enclosure, is_sealed, started, watched
from treadle.drivers.worker import CARDS
from treadle.errors import (
    ConfigError,
    LimitReached,
    MaxIterations,
    RemoteError,
    RemoteProtocolError,
    VersionMismatch,
)
from treadle.events import Asked, Event, Failed, Outcome, TextDelta, ToolStarted, TurnEnded, Usage, Warned
from treadle.io.peer import Patience, Peer
from treadle.io.process.programs import command_words
from treadle.io.tasks import start_held, within
from treadle.policy.environment import reduced
from treadle.policy.guess import access_of
from treadle.session import AgentInfo, Rules, SessionSpec
from treadle.sessions.session import BaseSession, Turn, new_id
from treadle.wire.worker import messages
from treadle.wire.worker.connection import UNKNOWN_ID, BadLine, Connection
from treadle.wire.worker.events import WorkerIncoming, error_info
from treadle.wire.worker.messages import (
    AnyRequest,
    EventLine,
    Init,
    InitConfig,
    InitOk,
    PermissionRules,
    SendResult,
    SessionBudget,
    Shutdown,
    ShutdownOk,
)
from treadle.wire.worker.versions import BASE, NEWEST, parse_version

# What a session spec asks of a worker, in the terms of its protocol.

TOOLS = ("read_file", "write_file", "edit_file", "glob", "grep", "bash")
"""The tools that every worker has, used when no tools are named: the wire cannot say "all"."""


def init_config(spec: SessionSpec) -> InitConfig:
    limits, rules = spec.limits, spec.rules
    budget = SessionBudget(
        max_cost_usd=limits.max_cost_usd, max_tokens=limits.max_tokens, max_seconds=limits.max_seconds
    )
    asks = {
        "answers": spec.answers,
        "steer": True,
        "warnings": True,
        "cwd": True,
        "approval_mode": spec.mode is not None,
        "permissions": rules != Rules(),
        "budget": budget != SessionBudget(),
        "resume": spec.start.resume is not None,
    }
    prompts = [text for text in (spec.instructions.system, spec.instructions.append) if text]
    return InitConfig(
        model=spec.model or "",
        system_prompt="\n\n".join(prompts),
        tools=tuple(
            name
            for name in (TOOLS if spec.tools.offered is None else spec.tools.offered)
            if name not in spec.tools.denied
        ),
        max_iterations=limits.max_iterations,
        capabilities=tuple(name for name, asked in asks.items() if asked),
        approval_mode=spec.mode,
        permissions=PermissionRules(allow=rules.allow, ask=rules.ask, deny=rules.deny) if asks["permissions"] else None,
        budget=budget if asks["budget"] else None,
        cwd=spec.cwd,
        resume=spec.start.resume,
    )


def not_enforced(spec: SessionSpec, extensions: frozenset[str]) -> list[str]:
    """What was asked for and the worker has not promised. Limits are not here: we enforce those ourselves."""
    limits = {
        "the approval mode": spec.mode is not None and "approval_mode" not in extensions,
        "the permission rules": spec.rules != Rules() and "permissions" not in extensions,
        "the guard of this session": spec.guards.judge is not None,
    }
    return [limit for limit, broken in limits.items() if broken]


# A worker process, and the messages that open and close a session with it.


class WorkerPeer(Peer[Any, AnyRequest]):
    async def shake_hands(self, spec: SessionSpec) -> InitOk:
        """Open the session at the other end, within the time for all of it."""
        version = f"{NEWEST[0]}.{NEWEST[1]}.0"
        async with self.handshake("did not answer the init"):
            await self.say(Init(id="init-1", protocol_version=version, config=init_config(spec)))
            return await self._accepted(await self._init_answer(), version)

    async def _init_answer(self) -> InitOk:
        while True:
            heard = await self.hear(2 * self.patience.handshake)
            while heard:
                item = heard.popleft()
                if isinstance(item, InitOk):
                    return item
                if isinstance(item, SendResult):
                    reason = item.error.message if item.error else "no reason given"
                    raise await self.blame(RemoteError, f"refused to start a session: {reason}")
                await self.wrong(item)

    async def _accepted(self, answer: InitOk, version: str) -> InitOk:
        if answer.error is not None:
            kind = VersionMismatch if answer.error.code == VersionMismatch.code else RemoteError
            raise await self.blame(kind, f"refused to start a session: {answer.error.message}")
        theirs = parse_version(answer.protocol_version) if answer.protocol_version is not None else BASE
        if theirs is None or theirs[0] != NEWEST[0]:
            raise await self.blame(VersionMismatch, f"speaks version {answer.protocol_version}, we speak {version}")
        return answer

    async def wrong(self, item: Any) -> None:
        """Something other than the expected message came: skip what may be skipped, and raise for the rest."""
        if isinstance(item, BadLine) and isinstance(item.untimely, EventLine):
            return  # such as a heartbeat that was overtaken by the result
        if isinstance(item, RemoteProtocolError):
            more = f" ({item.details})" if item.details else ""
            raise await self.blame(RemoteProtocolError, f"broke the protocol: {item.message}{more}")
        if isinstance(item, SendResult):
            raise await self.blame(RemoteProtocolError, f"gave a result for {item.id!r}, which no one asked for")

    async def say_goodbye(self) -> None:
        """Ask it to end, and make sure that it does."""
        if self.gone:
            return
        try:
            async with within(self.patience.shutdown):
                await self.say(Shutdown(id="shutdown-1"))
                while not isinstance((await self.hear(self.patience.shutdown)).popleft(), ShutdownOk):
                    pass
                await self.child.wait()
        except (TimeoutError, RemoteError):
            pass  # it was asked, and is now killed
        finally:
            await self.end()


HANDSHAKE = 60.0
"""In seconds: on a loaded machine a program such as opencode takes a quarter of a minute to start."""
HEARTBEAT_MS = 5000
"""The default of HEDDLE_HEARTBEAT_INTERVAL (seed 000). Workers are told it, and four missed ones count as silence."""
LIMITED = {"max_iterations", "loop_detected", "budget_exceeded", "timeout", "limit_reached"}


class WorkerAgent:
    def __init__(
        self,
        command: str | Sequence[str],
        *,
        patience: Patience | None = None,
        writes: Sequence[str] = (),
        hosts: Sequence[str] = (),
    ) -> None:
        self._writes = writes
        self._hosts = hosts
        self._argv = command_words(command) if isinstance(command, str) else list(command)
        self._patience = patience or Patience(handshake=HANDSHAKE)

    @property
    def name(self) -> str:
        return f"worker:{shlex.join(self._argv)}"

    async def probe(self) -> AgentInfo:
        return AgentInfo(name=self.name)

    async def open(self, spec: SessionSpec) -> WorkerSession:
        env = {"HEDDLE_HEARTBEAT_INTERVAL": str(HEARTBEAT_MS)} | reduced(os.environ, providers=True)
        env.pop("TREADLE_AGENT", None)  # it is meant for us: a worker that inherits it would start another, without end
        env |= spec.env
        patience = replace(self._patience, silence=self._patience.silence or _a_few_heartbeats(env))
        made = enclosure(spec, self.name, self._argv, env, self._writes, self._hosts)
        wire = Connection("client")
        start = partial(WorkerPeer.start, self._argv, wire, name=self.name, cwd=spec.cwd, env=env, patience=patience)
        worker = await started(made, start)
        return WorkerSession(self.name, spec, worker, await worker.shake_hands(spec))


def launched(card: Card, launch: Launch) -> WorkerAgent:
    """Called by `agents.py`. The option `handshake`: how many seconds a worker has for its first answer."""
    seconds = launch.options.get("handshake", HANDSHAKE)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
        raise ConfigError(f"the option handshake of a worker cannot be {seconds!r}", hint="give a number of seconds")
    patience = Patience(handshake=float(seconds))
    return WorkerAgent(launch.argv, writes=launch.writes, hosts=launch.hosts, patience=patience)


def _extended(extensions: frozenset[str]) -> dict[str, Level]:
    """What only a worker with these extensions can do."""
    needs = {"questions": "answers", "permissions": "answers", "rules": "permissions", "steer": "steer"}
    needs["resume"] = "resume"
    return {ability: "native" if each in extensions else "unsupported" for ability, each in needs.items()}


def _a_few_heartbeats(env: Mapping[str, str]) -> float:
    given = env["HEDDLE_HEARTBEAT_INTERVAL"]
    interval = int(given) if given.isascii() and given.isdigit() else HEARTBEAT_MS
    return 4 * max(interval, HEARTBEAT_MS) / 1000


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


class WorkerSession(BaseSession):
    def __init__(self, name: str, spec: SessionSpec, worker: WorkerPeer, opened: messages.InitOk) -> None:
        capabilities = opened.capabilities or {}
        self._extensions = frozenset(_strings(capabilities.get("extensions")))
        info = AgentInfo(
            name=name,
            version=opened.protocol_version or "",
            models=(spec.model,) if spec.model else (),
            tools=_strings(capabilities.get("enabled_tools")) or spec.tools.offered or (),
            capabilities={**CARDS[0].capabilities, **_extended(self._extensions)},
            sealed=is_sealed(worker),
        )
        super().__init__(opened.session_id or new_id("session"), info, answers=spec.answers)
        self._spec = spec
        self._worker = worker
        self._sent: messages.Send | None = None
        self._texts: list[str] = []
        self._failed = False
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._questions_out: set[asyncio.Task[None]] = set()
        for limit in not_enforced(spec, self._extensions):
            self.emit(Warned(message=f"{name} does not promise to enforce {limit}", code="not_enforced"))

    async def _close(self) -> None:
        await self._worker.say_goodbye()

    # A turn

    async def _turn(self, turn: Turn) -> TurnEnded:
        if self._worker.gone:
            raise RemoteError(f"{self._worker.name} has ended", hint="open a new session")
        async with watched(self._worker, self.emit, self):
            return await self._whole_turn(turn)

    async def _whole_turn(self, turn: Turn) -> TurnEnded:
        send = messages.Send(id=new_id("send"), message=turn.prompt.text)
        self._texts, self._failed = [], False
        counted = self.spent.calls
        incoming = WorkerIncoming(send.id, access_of)
        try:
            await self._worker.say(send)
            self._sent = send
            result = await self._follow(turn, send, incoming)
        except (asyncio.CancelledError, LimitReached):
            await self._call_off(turn, send, incoming)
            raise
        finally:
            self._sent = None
            for question in self._questions_out:
                question.cancel()
            turn.text = turn.text or "".join(self._texts)
        if result.usage is not None and self.spent.calls == counted:
            self._count(turn, result.usage)
        return self._outcome(turn, result)

    def _count(self, turn: Turn, usage: messages.ResultUsage) -> None:
        """Count what a worker used that reports it only in its result."""
        send = messages.Send(id="", message="")
        incoming = WorkerIncoming(send.id, access_of)
        for event in incoming.events(messages.UsageEvent(**asdict(usage))):
            self._pass_on(event, turn, send, incoming, False)

    async def _follow(
        self, turn: Turn, send: messages.Send, incoming: WorkerIncoming, *, limited: bool = True
    ) -> messages.SendResult:
        """Pass on what the worker says until the result."""
        worker = self._worker
        while True:
            heard = await worker.hear()
            while heard:
                item = heard.popleft()
                if type(item) is messages.EventLine:
                    for event in incoming.events(item.event):
                        self._pass_on(event, turn, send, incoming, limited)
                elif isinstance(item, messages.SendResult) and item.id in (send.id, UNKNOWN_ID):
                    return item
                elif isinstance(item, messages.SteerOk | messages.AnswerOk):
                    if (waiting := self._waiting.pop(item.id, None)) is not None and not waiting.done():
                        waiting.set_result(item.accepted)
                else:
                    await worker.wrong(item)
            await self.room()

    def _pass_on(self, event: Event, turn: Turn, send: messages.Send, incoming: WorkerIncoming, limited: bool) -> None:
        if type(event) is TextDelta:
            self._texts.append(event.text)
            self.emit(event)
            return
        match event:
            case Usage():
                turn.iterations += not incoming.busy  # while a tool runs, it is a subagent that calls its model
                event = replace(event, model=self._spec.model or "")
            case Asked() if event.request:
                start_held(self._questions_out, self._put(event, send))
                return
            case ToolStarted() if not self.spent.calls:
                turn.iterations += 1  # it counts nothing for us, so each call counts as a step of its own
            case Failed():
                self._failed = True
        self.emit(event)
        most = self._spec.limits.max_iterations
        if limited and most is not None and turn.iterations > most:
            raise MaxIterations(f"the worker continued after {most} iterations")

    async def _call_off(self, turn: Turn, send: messages.Send, incoming: WorkerIncoming) -> None:
        """Cancel, and wait for the result; a worker that ignores the cancel is ended."""
        worker = self._worker
        if self._sent is None:  # half of the send may be written, and nothing can follow that
            await worker.end()
        if worker.gone:
            return
        try:
            async with within(worker.patience.cancel):
                await worker.say(messages.CancelRequest(id=new_id("cancel"), target_id=send.id))
                result = await self._follow(turn, send, incoming, limited=False)
                turn.iterations = result.iterations or turn.iterations
        except RemoteError:
            pass
        except TimeoutError:
            self.emit(Warned(message=f"{worker.name} ignored the cancel and was ended", code="cancel_not_heeded"))
            await worker.end()

    def _outcome(self, turn: Turn, result: messages.SendResult) -> TurnEnded:
        turn.text = result.response or "".join(self._texts)
        turn.iterations = result.iterations or turn.iterations
        if result.status == "ok":
            return turn.ending("completed")
        error = error_info(result.error) if result.error else None
        outcome: Outcome = "failed"
        if result.status == "cancelled" or (error and error.code == "cancelled"):
            outcome = "interrupted"
        elif error and error.code in LIMITED:
            outcome = "limited"
        if error and outcome != "interrupted" and not self._failed:
            self.emit(Failed(error=error))
        return turn.ending(outcome, error)

    # Questions and steering

    async def _put(self, asked: Asked, send: messages.Send) -> None:
        """Pass on the answer of someone here to what the worker asks."""
        asked = replace(asked, deadline=self.deadline())
        answer = await self.ask(asked)
        await self._worker.say(
            messages.AnswerRequest(
                id=new_id("answer"),
                target_id=send.id,
                request_id=asked.request,
                decision=answer.decision,
                scope=answer.scope,
                text=answer.text,
            )
        )

    async def _steer(self, turn: Turn, text: str) -> bool:
        if not self._sent:
            return False
        id = new_id("steer")
        accepted = self._waiting[id] = asyncio.get_running_loop().create_future()
        await self._worker.say(messages.Steer(id=id, target_id=self._sent.id, message=text))
        done, _ = await asyncio.wait([accepted], timeout=self._worker.patience.cancel)
        return bool(done) and accepted.result()
