"""What every driven session has in common: one reader of the agent's messages, permissions under our rules, tool calls
that always end, limits, and an interrupt that leaves nothing of the turn running.

A subclass for each kind of agent defines how a turn begins (`_begin`), what each message means (`_hear`) and how the
agent is asked to stop (`_stop`), and calls `over` when the turn has ended.
"""

import asyncio
import contextlib
import logging
import os.path
import signal
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Literal, cast

import msgspec

from treadle.agent.tools.images import look
from treadle.drivers.card import Card, Level, newer, older
from treadle.drivers.confined import Enclosure, Withheld, is_sealed, unchanged, watched
from treadle.drivers.model_wire import Wired
from treadle.errors import (
    AuthFailed,
    BudgetExceeded,
    LimitReached,
    LineTooLong,
    MaxIterations,
    PeerStalled,
    RemoteError,
    RemoteProtocolError,
    TreadleError,
    Unsupported,
)
from treadle.events import (
    Asked,
    ErrorInfo,
    Failed,
    Retrying,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.io.paths import DISK
from treadle.io.peer import Peer
from treadle.io.process import table
from treadle.io.tasks import start_held, within
from treadle.policy.rules import Profile
from treadle.session import Access, AgentInfo, Answer, Mode, Prompt, SessionSpec, TurnId
from treadle.sessions import abilities
from treadle.sessions.session import QUESTION_SECONDS, BaseSession, Turn, new_id
from treadle.sessions.totals import Totals

log = logging.getLogger(__name__)

SILENCE = 1800.0
"""How many seconds a working agent may be silent, unless the settings say otherwise: a tool may take long."""
LEFTOVER_GRACE = 0.5
"""How many seconds an interrupted agent has to end by itself what it had started."""
OURS = ("rule", "mode", "hook", "nobody", "deadline", "claim")
"""Who can have denied a call, other than a person."""
INSISTS = 4
"""An agent that asks for so many calls in a turn which its budget does not allow is ended."""
BAD_LINES = 100
"""The session ends after this many unreadable lines."""


class Work:
    """The current turn, from the agent's point of view."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.over: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()
        self.stopping = False
        """Whether it is being stopped: the one who does that then waits for its end."""
        self.finished = False
        """Whether the agent has ended it by itself, so that there is nothing to stop."""
        self.failed = False
        """Whether an error was reported already, so that the end need not report it again."""


class DrivenSession(BaseSession):
    FATAL: ClassVar[tuple[type[RemoteProtocolError], ...]] = (LineTooLong,)
    """Errors that end the turn: an unreadable line may have been the turn's end, so waiting for it would be endless."""
    OBEYS: ClassVar[bool] = False
    """Whether it treats every prompt that begins with a slash as a command, without a way to prevent it."""

    def __init__(self, session_id: str, card: Card, spec: SessionSpec, peer: Peer[Any, Any], version: str = "") -> None:
        info = AgentInfo(
            name=card.name,
            version=version,
            models=(spec.model,) if spec.model else (),
            tools=spec.tools.offered or (),
            capabilities=dict(card.capabilities),
            mode=spec.mode,
            losses=card.losses,
            sealed=is_sealed(peer),
            reaches=peer.enclosed.reaches if isinstance(peer.enclosed, Enclosure) else None,
            wire=peer.wired.wire if isinstance(peer.wired, Wired) else None,
        )
        patience = QUESTION_SECONDS if spec.answer_seconds is None else spec.answer_seconds
        super().__init__(session_id, info, answers=spec.answers, question_seconds=patience)
        self.card = card
        self.spec = spec
        self.peer = peer
        self.silence = SILENCE
        self._guard = self._profile(spec)
        self._work: Work | None = None
        self._lost: TreadleError | None = None
        self._claimed = Totals()
        self._over_budget: BudgetExceeded | None = None
        self._refused_calls = 0
        self._tools: dict[str, tuple[str, float]] = {}
        """Calls that have started and not ended: name and start time."""
        self._denied: set[str] = set()
        self._jobs: set[asyncio.Task[None]] = set()
        self._before: set[tuple[int, int]] = set()
        self._bad_lines = 0
        self._withheld: Withheld | None = None
        self.limited_until: float | None = None
        """When its account can be used again, as the agent reports it apart from the error."""
        self.heard_at = time.monotonic()
        self._reader = asyncio.create_task(self._listen(), name=f"what {card.name} says")
        self._gateway = peer.wired.gateway if isinstance(peer.wired, Wired) else None
        if self._gateway is not None:
            self._gateway.report_to(self)

    def narrow(self, levels: dict[str, Level]) -> None:
        """It says of itself that it can do less than its card: what the session asks for is checked once more."""
        self._info = msgspec.structs.replace(self._info, capabilities=levels)
        for message in abilities.narrowed(self._info.name, self.card.capabilities, levels, self.spec):
            self.emit(Warned(message=message, code="not_enforced"))

    def lacks(self, withheld: Withheld) -> None:
        """Tell a person which variables its settings name and it did not get, now and when it fails."""
        self._withheld = withheld
        if warning := withheld.warning():
            self.emit(Warned(message=warning, code="withheld"))

    async def prompt(self, prompt: Prompt) -> TurnId:
        for number, data in enumerate(prompt.images, 1):
            look(data, f"image {number}")  # a service that cannot read one refuses the whole conversation from then on
        if prompt.verbatim and prompt.text.lstrip().startswith("/") and self.OBEYS:
            raise Unsupported(
                f"{self.card.name} would treat this prompt as one of its commands, because it begins with a slash"
            )
        return await super().prompt(prompt)

    # What a kind of agent says

    @abstractmethod
    async def _begin(self, turn: Turn) -> None:
        """Give it the prompt."""

    @abstractmethod
    def _hear(self, message: Any) -> None:
        """Handle one message; what takes time goes into `job`."""

    @abstractmethod
    async def _stop(self, turn: Turn) -> None:
        """Ask it to stop that turn."""

    async def account(self) -> str | None:
        """How it is signed in: empty when it is not, None when that is unknown."""
        return self._info.key_source or None

    async def _leave(self) -> None:
        """Say goodbye, if the protocol has a message for it. What is still there afterwards is ended."""
        await self.peer.leave()

    # Hearing

    async def _listen(self) -> None:
        try:
            while True:
                heard = await self.peer.hear()
                self.heard_at = time.monotonic()
                while heard:
                    message = heard.popleft()
                    if isinstance(message, RemoteProtocolError):
                        await self._bad_line(message)
                    else:
                        self._understand(message)
                        if self._ahead():
                            await self._in_step()
                await self.room()
        except TreadleError as error:
            self._part(error)

    def _ahead(self) -> bool:
        """Whether the agent's turn is over and we have not reported that yet."""
        return self._work is not None and self._work.over.done()

    async def _in_step(self) -> None:
        """What comes after the end of a turn belongs to the next one: wait until this end has been reported."""
        work = self._work
        if work is not None and not work.stopping and work.over.done() and work.over.exception() is None:
            await work.turn.ended.wait()

    async def _bad_line(self, error: RemoteProtocolError) -> None:
        """A stray line in its output is worth a warning; a record that is too long or broken may be the result."""
        if self._broken_answer(error):
            return
        self._bad_lines += 1
        if isinstance(error, self.FATAL):
            raise await self.peer.blame(type(error), f"sent what cannot be followed: {error.message}")
        if self._bad_lines > BAD_LINES:
            raise await self.peer.blame(RemoteProtocolError, f"sent {BAD_LINES} lines that cannot be read")
        if self._bad_lines == 1:
            self.emit(Warned(message=f"{self.card.name} sent an invalid message: {error.message}", code="tolerated"))

    def _broken_answer(self, error: RemoteProtocolError) -> bool:
        """Whether it was an answer that one of our calls waited for, which has failed now."""
        return False

    def _understand(self, message: Any) -> None:
        try:
            self._hear(message)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            log.warning("not understood of %s: %s: %s: %.500s", self.card.name, type(error).__name__, error, message)
            problem = f"{self.card.name} said something in a form that is not known: {type(error).__name__}: {error}"
            self.emit(Warned(message=problem, code="tolerated"))

    def _part(self, error: TreadleError) -> None:
        """It will say nothing any more."""
        self._lost = error
        if self._work is not None and not self._work.over.done():
            self._work.over.set_exception(error)

    def job(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this beside the reader; it ends with the turn or the session."""
        start_held(self._jobs, self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TreadleError as error:
            log.info("%s could not be answered: %s", self.card.name, error)

    # A turn

    async def _turn(self, turn: Turn) -> TurnEnded:
        if self._lost is not None or self.peer.gone:
            raise RemoteError(f"{self.card.name} has ended", hint="open a new session, or resume this one by its id")
        if self._gateway is not None and self._gateway.recorder is not None:
            self._gateway.recorder.prompt(turn.prompt.text, self._info.version)
        async with watched(self.peer, self.emit, self):
            ended = await self._whole_turn(Work(turn))
        if (stop := self.spec.program.stop) is not None:
            await stop(ended.outcome, ended.text)
        return ended

    async def _whole_turn(self, work: Work) -> TurnEnded:
        self._work, turn = work, work.turn
        self._denied.clear()
        self._over_budget, self._refused_calls = None, 0
        try:
            await self._begin(turn)
            self._before = self._running()
            return await self._until_over(work)
        except (asyncio.CancelledError, LimitReached):
            await self._call_off(work)
            raise
        finally:
            self._work = None
            for task in [*self._jobs]:
                task.cancel()
            self._end_tools("the turn ended before it did")

    async def _until_over(self, work: Work) -> TurnEnded:
        began = time.monotonic()
        while not work.over.done():
            left = max(began, self.heard_at) + self.silence - time.monotonic()
            if left <= 0 and not self._questions:
                raise await self.peer.blame(PeerStalled, f"sent nothing for {self.silence:g} s")
            await asyncio.wait([work.over], timeout=max(left, 1.0))
        return work.over.result()

    async def _call_off(self, work: Work) -> None:
        """Ask it to stop, and make sure that nothing of the turn goes on."""
        work.stopping = True
        for task in [*self._jobs]:
            task.cancel()
        if self.peer.gone or work.finished or work.over.done() and not isinstance(work.over.exception(), LimitReached):
            return
        if work.over.done():
            work.over = asyncio.get_running_loop().create_future()
        try:
            async with within(self.peer.patience.cancel):
                await self._stop(work.turn)
                with contextlib.suppress(TreadleError):
                    await work.over
        except TreadleError:
            pass
        except TimeoutError:
            problem = f"{self.card.name} did not stop within {self.peer.patience.cancel:g} s and was ended"
            self.emit(Warned(message=problem, code="cancel_not_heeded"))
            await self.peer.end()
        await self._end_leftovers()

    def _running(self) -> set[tuple[int, int]]:
        return {(each.pid, each.start) for each in self.peer.child.tree.processes()}

    async def _end_leftovers(self) -> None:
        """Some agents leave the command of an interrupted turn running, so end it."""
        deadline = time.monotonic() + LEFTOVER_GRACE
        while left := [each for each in self._fresh() if not self.peer.gone]:
            if time.monotonic() > deadline:
                for each in left:
                    table.send(each, signal.SIGKILL)
            await asyncio.sleep(0.02)

    def _fresh(self) -> list[table.Process]:
        """Processes that were started since the turn began."""
        return [each for each in self.peer.child.tree.processes() if (each.pid, each.start) not in self._before]

    def over(self, ended: TurnEnded) -> None:
        """The agent says that its turn has ended."""
        if self._work is None:
            return
        self._work.finished = True
        if not self._work.over.done():
            without_text = ended.outcome == "completed" and not ended.text
            if self._over_budget is not None and (ended.outcome == "failed" or without_text):
                error = ErrorInfo(**self._over_budget.envelope())
                ended = msgspec.structs.replace(ended, outcome="failed", error=error)
            if ended.error is not None and ended.outcome == "failed":
                ended = msgspec.structs.replace(ended, error=(error := self._advised(ended.error)))
                if not self._work.failed:
                    self.emit(Failed(error=error))
            self._end_tools("the turn ended before it did")
            self._work.over.set_result(ended)

    def _advised(self, error: ErrorInfo) -> ErrorInfo:
        if error.code == "rate_limited" and error.retry_after_ms is None and self.limited_until is not None:
            wait = max(0, round((self.limited_until - time.time()) * 1000))
            error = msgspec.structs.replace(error, retry_after_ms=wait)
        if self._withheld is None:
            return error
        advice = self._withheld.hint(error.message, signing_in=error.code == AuthFailed.code)
        return msgspec.structs.replace(error, message=f"{error.message} ({advice})") if advice else error

    def fail(self, error: TreadleError) -> None:
        if self._withheld is not None:
            self._withheld.advise(error, signing_in=isinstance(error, AuthFailed))
        if self._work is not None and not self._work.over.done():
            self._work.over.set_exception(error)

    # Text, tools and tokens

    def tool_started(self, call: str, name: str, access: Access, parent: str | None = None) -> None:
        if call in self._tools or call in self._denied:
            return
        self._tools[call] = (name, time.monotonic())
        self.emit(
            ToolStarted(
                call=call,
                name=name,
                args=access.args,
                kind=access.kind,
                paths=access.paths,
                command=access.command,
                parent=parent,
            )
        )

    def tool_ended(self, call: str, result: str, ok: bool, parent: str | None = None) -> None:
        if (started := self._tools.pop(call, None)) is not None:
            name, since = started
            took = int((time.monotonic() - since) * 1000)
            self.emit(ToolEnded(call=call, name=name, result=result, ok=ok, duration_ms=took, parent=parent))

    def tool_denied(self, call: str, name: str, reason: str, by: str, args: Any, parent: str | None = None) -> None:
        if call not in self._denied:
            self._denied.add(call)
            known = by if by in OURS else "person"
            self.emit(ToolDenied(call=call, name=name, reason=reason, by=cast(Any, known), args=args, parent=parent))
            # One that was asked about late, by a slow agent, had been taken for one that runs.
            self.tool_ended(call, f"not allowed: {reason}", ok=False, parent=parent)

    def _end_tools(self, why: str) -> None:
        for call in [*self._tools]:
            self.tool_ended(call, why, ok=False)

    def spend(self, usage: Usage) -> None:
        """What the agent says that a model call used. Where its calls were counted as they passed, it is only a
        claim."""
        if self._gateway is None or not self._gateway.calls:
            self.emit(usage)
            return
        self._claimed = self._claimed.plus(usage)
        if self._info.wire is not None:
            wire = msgspec.structs.replace(self._info.wire, claimed=self._claimed.counts())
            self._info = msgspec.structs.replace(self._info, wire=wire)

    def wire_used(self, usage: Usage) -> None:
        self.emit(usage)

    def wire_noted(self, message: str, code: str) -> None:
        self.emit(Warned(message=message, code=code))

    def wire_waits(self, wait: Retrying) -> None:
        self.emit(wait)

    def wire_refused(self, error: BudgetExceeded) -> None:
        """The agent has the refusal as its service's answer, and ends its turn; one that insists is ended, and one for
        which it is decided elsewhere what it may still spend: there it goes on later, where it was."""
        self._over_budget = error
        self._refused_calls += 1
        self.emit(Warned(message=error.message, code="budget"))
        if self._refused_calls >= INSISTS or self.spec.guards.calling is not None:
            self.fail(error)

    def step(self) -> None:
        """Count one more model call of the turn itself."""
        if self._work is not None:
            turn, most = self._work.turn, self.spec.limits.max_iterations
            turn.iterations += 1
            if most is not None and turn.iterations > most:
                self.fail(MaxIterations(f"{self.card.name} continued after {most} iterations"))

    def error(self, info: ErrorInfo) -> None:
        if self._work is not None:
            self._work.failed = True
        self.emit(Failed(error=self._advised(info)))

    # Permissions

    def access(self, name: str, args: Any, kind: Any, paths: tuple[str, ...] = (), **more: Any) -> Access:
        """What a call will touch, with paths in the form that our rules need."""
        real = tuple(DISK.real(os.path.join(self.spec.cwd, path)) for path in paths if "\0" not in path)
        return Access(tool=name, kind=kind, paths=real, args=args, **more)

    async def permit(
        self,
        access: Access,
        *,
        call: str,
        text: str = "",
        kind: Literal["permission", "question", "plan"] = "permission",
        options: tuple[str, ...] = (),
        judged: bool = False,
        about: Callable[[Any], Access] | None = None,
        parent: str | None = None,
    ) -> Answer:
        """Decide whether this may run: by our rules first, then by a person, else denied with the reason.

        `about`: what the call touches with other arguments. A person cannot change it to what a rule denies.
        """
        decision = self._guard(access)
        if kind == "permission" and not judged and decision.verdict == "allow":
            return Answer(decision="allow", by=decision.by)
        if decision.verdict == "deny":
            self.tool_denied(call, access.tool, decision.reason, decision.by, access.args, parent)
            return Answer(decision="deny", text=decision.reason, by=decision.by)
        answer = await self.ask(
            Asked(
                request=new_id("ask"),
                kind=kind,
                text=text or decision.reason or f"{self.card.name} asks to use {access.tool}",
                call=call,
                name=access.tool,
                args=access.args,
                tool_kind=access.kind,
                paths=access.paths,
                command=access.command,
                options=options,
                deadline=self.deadline(),
                parent=parent,
            )
        )
        if answer.changed_args is not None and about is not None:
            changed = self._guard(about(answer.changed_args))
            if changed.verdict == "deny":
                decision, answer = changed, Answer(decision="deny", text=changed.reason, by=changed.by)
        if answer.decision == "deny":
            why = answer.text or "a person said no"
            reason = f"{decision.reason}: {why}" if decision.reason and answer.by == "nobody" else why
            self.tool_denied(call, access.tool, reason, answer.by, access.args, parent)
        elif answer.scope != "once" and kind == "permission" and answer.changed_args is None:
            self._guard.remember(access)
        return answer

    def rebind(self, mode: Mode) -> None:
        """Switch to another mode; what a person has allowed stays allowed."""
        if limit := unchanged(self.spec, mode):
            self.emit(Warned(message=f"{self._info.name}: {limit}", code="not_enforced"))
        remembered = self._guard.remembered
        self.spec = spec = msgspec.structs.replace(self.spec, mode=mode)
        self._info = msgspec.structs.replace(self._info, mode=mode)
        self._guard = self._profile(spec)
        self._guard.remembered.update(remembered)

    def _profile(self, spec: SessionSpec) -> Profile:
        guard, sealed = spec.guards.judge, is_sealed(self.peer)
        return Profile(spec.cwd, spec.rules, spec.mode, spec.add_dirs, guard, confined=lambda: sealed, disk=DISK)

    # Ending

    def warn_of_drift(self) -> None:
        if newer(self._info.version, self.card.recorded):
            drift = f"{self.card.name} {self._info.version} is newer than any recording ({self.card.recorded[-1]})"
            self.emit(Warned(message=f"{drift}; new messages are ignored", code="version_drift"))
        elif older(self._info.version, self.card.recorded):
            drift = f"{self.card.name} {self._info.version} is older than any recording ({self.card.recorded[0]})"
            self.emit(Warned(message=f"{drift}; it may lack abilities that its card declares", code="version_drift"))

    async def _close(self) -> None:
        self._reader.cancel()
        for task in [*self._jobs]:
            task.cancel()
        try:
            if not self.peer.gone and self._lost is None:
                await self._leave()
        except TreadleError:
            pass
        finally:
            await self.peer.end()
