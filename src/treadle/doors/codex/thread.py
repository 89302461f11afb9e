"""One thread of a client: its turns, what it is told of them, and what it is asked."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from treadle.doors.codex import approvals
from treadle.doors.codex.params import Terms, effort, prompt_of, refused, terms
from treadle.doors.diffs import proposed
from treadle.errors import NotFound, TreadleError
from treadle.events import Answered, AnyEvent, Asked, TurnEnded, TurnStarted, Usage, Warned
from treadle.io.rpc import Then
from treadle.io.within import end_tasks
from treadle.session import Answer, Change, Choosing, Remembering, Session, SessionSpec, StoredSession
from treadle.wire.acp.tools import unified
from treadle.wire.codex import items
from treadle.wire.codex.connection import SPEAKS
from treadle.wire.codex.outgoing import AppServerOutgoing, Notification, past
from treadle.wire.common.rpc import CallKey

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
        self.turns: list[items.Item] = []
        if isinstance(session, Remembering) and spec.start.resume is not None:
            self.turns = past(session.history(), session.id, spec.cwd)
        self._title = self.turns[0]["items"][0]["content"][0]["text"] if self.turns else ""
        self._inputs: dict[str, list[items.Item]] = {}
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

    def view(self, *, turns: bool = False) -> items.Item:
        """The thread as answers give it."""
        listed = StoredSession(id=self.id, cwd=self._spec.cwd, title=self._title, updated=time.time())
        shown = items.thread(listed, status="idle", model=self._model or None, version=SPEAKS)
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
            return Then({"turn": items.turn(self.turn, "inProgress")}, _nothing)
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
        return Then({"turn": items.turn(turn, "inProgress")}, self._begun)

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
        self.turns.append(items.turn(self.turn, "inProgress", items=[]))
        self._out = AppServerOutgoing(self.id, self.turn, self._spec.cwd, self._proposed)
        await self._tell_status()
        shown = items.turn(self.turn, "inProgress")
        await self._tell("turn/started", {"threadId": self.id, "turn": {**shown, "startedAt": int(event.ts)}})
        given = self._inputs.pop(self.turn, None) or [items.text_input(event.prompt)]
        if event.source == "user":
            await self._say(self._out.begin(given))

    async def _end(self, event: TurnEnded) -> None:
        out, self._out = self._out, None
        if out is None:
            return
        await self._say(out.end(event))
        status = _STATUS.get(event.outcome, "failed")
        error = event.error if status == "failed" else None
        self.turns[-1] |= {"status": status, "error": items.turn_error(error) if error is not None else None}
        turn, self.turn = self.turn, ""
        await self._tell_status("systemError" if status == "failed" else "idle")
        ended = {**items.turn(turn, status, error=error), "completedAt": int(event.ts)}
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
        counts = {"total": items.tokens(self._spent), "last": items.tokens(used), "modelContextWindow": window}
        where = {"threadId": self.id, "turnId": self.turn}
        await self._tell("thread/tokenUsage/updated", {**where, "tokenUsage": counts})

    def _status(self) -> dict[str, Any]:
        if not self.turn:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if self._asking else []}

    async def _tell_status(self, kind: str = "") -> None:
        status = {"type": kind} if kind else self._status()
        await self._tell("thread/status/changed", {"threadId": self.id, "status": status})

    def _proposed(self, args: Any) -> list[items.Item]:
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

    async def _put(self, asked: Asked, item: items.Item, turn: str) -> None:
        where = {"threadId": self.id, "turnId": turn}
        keys: list[CallKey] = []

        async def call(method: str, params: dict[str, Any]) -> Any:
            return await self._ask_client(method, params, keys.append)

        try:
            decided = await approvals.put(call, where, asked, item)
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
