"""A task: one turn of a session, as those who watch it see it."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, cast

from treadle import events
from treadle.errors import Unsupported
from treadle.events import Asked
from treadle.session import Answer, Prompt, Session
from treadle.sessions.served import ServedTurn
from treadle.sessions.session import new_id
from treadle.wire.a2a.messages import (
    INTERRUPTED,
    TERMINAL,
    UNSUPPORTED_OPERATION,
    A2aArtifact,
    A2aEvent,
    A2aMessage,
    A2aPart,
    A2aState,
    A2aStatus,
    A2aTask,
    ArtifactUpdate,
    Malformed,
    StatusUpdate,
)
from treadle.wire.common.jsonrpc import Fault
from treadle.wire.common.jsontext import dumps, timestamp

# A session's questions as messages of a task that needs input, and the replies as our answers.
#
# A reply that is no answer is refused, and the question stays open: nothing is guessed.

SCOPES: tuple[Literal["once", "session", "always"], ...] = ("once", "session", "always")
_YES = ("allow", "yes", "approve", "once")
_NO = ("deny", "no", "reject")
_SHOWN = 2000


def parts_of(asked: Asked) -> tuple[A2aPart, ...]:
    """In words for a person, and as data for a program."""
    words = [asked.text]
    if asked.kind == "permission":
        words += [_about(asked), "Reply with allow, session, always, or deny and a reason."]
    elif asked.kind == "plan":
        words.append("Reply with approve, or deny and what to change.")
    elif asked.options:
        words += [f"{number}. {option}" for number, option in enumerate(asked.options, 1)]
    data: dict[str, Any] = {"question": asked.kind, "request": asked.request}
    if asked.options:
        data["options"] = list(asked.options)
    if asked.name:
        data |= {"tool": asked.name, "args": asked.args, "paths": list(asked.paths)}
    return (A2aPart(text="\n".join(filter(None, words))), A2aPart(data=data))


def answer_of(asked: Asked, message: A2aMessage) -> Answer:
    """What was replied; Malformed when it cannot be understood."""
    given = next((part.data for part in message.parts if isinstance(part.data, dict) and "decision" in part.data), None)
    if given is not None:
        return _by_data(asked, given)
    text = message.text.strip()
    if asked.kind == "question":
        return Answer(decision="allow", text=_chosen(asked, text))
    word, _, rest = text.partition(" ")
    word = word.strip(".,:;!").lower()
    if word in _NO:
        return Answer(decision="deny", text=rest.strip())
    if word in _YES and not rest.strip():
        return Answer(decision="allow")
    if asked.kind == "permission" and word in SCOPES and not rest.strip():
        return Answer(decision="allow", scope=cast(Any, word))
    wanted = "allow, session, always, or deny" if asked.kind == "permission" else "approve, or deny"
    raise Malformed(f"message.parts: the task asks for {wanted} and a reason, not {text[:80]!r}")


def _by_data(asked: Asked, given: dict[str, Any]) -> Answer:
    decision, scope, text = given.get("decision"), given.get("scope", "once"), given.get("text", "")
    if decision not in ("allow", "deny") or scope not in SCOPES or not isinstance(text, str):
        raise Malformed("message.parts: a decision is allow or deny, with a scope of once, session or always")
    if asked.kind == "question" and decision == "allow":
        text = _chosen(asked, text.strip())
    return Answer(decision=decision, scope=scope, text=text, changed_args=given.get("args"))


def _chosen(asked: Asked, text: str) -> str:
    if not text:
        raise Malformed("message.parts: the task asks for an answer, and there is no text")
    if text.isascii() and text.isdigit() and 0 < int(text) <= len(asked.options):
        return asked.options[int(text) - 1]
    return text


def _about(asked: Asked) -> str:
    if asked.command is not None:
        return asked.command[:_SHOWN]
    return ", ".join(asked.paths)[:_SHOWN] or (dumps(asked.args)[:_SHOWN] if asked.args else "")


BEHIND = 10_000
"""A watcher that is this many events behind is dropped; it can subscribe again, and begins with the whole task."""
ENDINGS: dict[str, A2aState] = {"completed": "completed", "interrupted": "canceled"}
"""The state after each outcome of a turn; all others are `failed`."""
SHOWN = ("changed_input", "not_told", "cancel_not_heeded")
"""The warnings whose words a client may see; others may name files of ours."""


_numbers = itertools.count(1)


class ServedTask:
    """`follow` runs it to its end. Who asks for it meanwhile gets its current state."""

    def __init__(self, session: Session, context: str, message: A2aMessage, owner: str, after: int) -> None:
        self.id, self.context, self.owner = new_id("task"), context, owner
        self.number = next(_numbers)
        self.status = A2aStatus(state="submitted", timestamp=timestamp(time.time()))
        self.on_status: Callable[[A2aEvent], None] = lambda event: None
        """Called with each change of the state, for webhooks."""
        self._history: list[A2aMessage] = []
        self._artifacts: dict[str, list[str]] = {}
        self._writing = ""
        """The artifact that text is appended to; empty between two of them."""
        self._served = ServedTurn(session, after=after, left="the server stopped")
        self._asking = ""
        """The question that is shown now."""
        self._watchers: set[asyncio.Queue[A2aEvent | None]] = set()
        self._resting = asyncio.Event()
        self.note(message)

    # What others see

    def snapshot(self, history: int | None = None, *, artifacts: bool = True) -> A2aTask:
        shown = self._history if history is None else self._history[len(self._history) - history :] if history else []
        found = [
            A2aArtifact(id=name, name="answer", parts=(A2aPart(text="".join(pieces)),))
            for name, pieces in self._artifacts.items()
        ]
        return A2aTask(
            id=self.id,
            context=self.context,
            status=self.status,
            artifacts=tuple(found) if artifacts else (),
            history=tuple(shown),
            metadata=self._usage() if self.ended else {},
        )

    @property
    def ended(self) -> bool:
        return self.status.state in TERMINAL

    async def rest(self) -> None:
        """Wait until it has ended or needs something."""
        await self._resting.wait()

    def watch(self, *, through: bool) -> AsyncGenerator[A2aEvent]:
        """The whole task as it is now, then its changes until it has ended; unless `through`, also until it needs
        something."""
        queue: asyncio.Queue[A2aEvent | None] = asyncio.Queue()
        self._watchers.add(queue)
        return self._changes(queue, self.snapshot(), through)

    async def _changes(
        self, queue: asyncio.Queue[A2aEvent | None], begin: A2aTask, through: bool
    ) -> AsyncGenerator[A2aEvent]:
        def over(state: A2aState) -> bool:
            return state in TERMINAL or (state in INTERRUPTED and not through)

        try:
            yield begin
            done = over(begin.status.state)
            while not done and (event := await queue.get()) is not None:
                yield event
                done = isinstance(event, StatusUpdate) and over(event.status.state)
        finally:
            self._watchers.discard(queue)

    # What happens to it

    def note(self, message: A2aMessage) -> None:
        """Put a message into the history, with the ids of this task."""
        self._history.append(
            A2aMessage(id=message.id, role=message.role, parts=message.parts, context=self.context, task=self.id)
        )

    async def begin(self, prompt: Prompt) -> None:
        await self._served.prompt(prompt)

    async def follow(self) -> None:
        """Read the events of its turn until that has ended."""
        try:
            async with self._served:
                async for event in self._served:
                    self._take(event)
            if not self.ended:
                self._change("failed", "the session was closed")
        finally:
            if not self.ended:
                self._change("failed", "the server stopped")

    async def hear(self, message: A2aMessage) -> None:
        """A further message for it: the answer to its question, or words for an agent that can be given some."""
        if self.ended:
            raise Fault(UNSUPPORTED_OPERATION, f"the task is {self.status.state} and takes no further messages")
        if not self._served.questions:
            return await self._steer(message)
        asked = next(iter(self._served.questions.values()))
        answer = answer_of(asked, message)
        self.note(message)
        await self._served.answer(asked.request, answer)
        self._ask_or_go_on()

    async def _steer(self, message: A2aMessage) -> None:
        try:
            heard = bool(message.text.strip()) and await self._served.steer(message.text)
        except Unsupported as error:
            raise Fault(UNSUPPORTED_OPERATION, str(error)) from error
        if not heard:
            raise Fault(UNSUPPORTED_OPERATION, "the task takes no message now: send it without a taskId as the next")
        self.note(message)

    async def cancel(self) -> None:
        await self._served.interrupt("cancelled by the client")
        await self._resting.wait()

    def _take(self, event: events.AnyEvent) -> None:
        match event:
            case events.TurnStarted():
                self._change("working")
            case events.TextDelta(text=text, parent=None):
                self._append(text)
            case events.Message(text=text, kind="text", parent=None):
                self._whole(text)
            case events.ToolStarted(parent=None):
                about = event.command or ", ".join(event.paths)
                self._progress(f"{event.name}: {about}" if about else event.name, {"tool": event.name})
            case events.ToolDenied() if event.by != "person":  # who said no to a question of the task knows it
                words = f"{event.name} was denied: {event.reason}"
                self.note(self._words(words))
                self._progress(words, {"denied": event.name})
            case events.Retrying():
                self._progress(f"trying again: {event.error.message}", {})
            case events.Asked() if len(self._served.questions) == 1:
                self._ask_or_go_on()
            case events.Answered() if event.request == self._asking:
                self._ask_or_go_on()
            case events.Warned():
                words = event.message if event.code in SHOWN else f"a warning for the agent's owner: {event.code}"
                self.note(self._words(words))
                self._progress(words, {"warning": event.code})
            case events.TurnEnded():
                self._end(event)

    def _append(self, text: str) -> None:
        fresh = not self._writing
        if fresh:
            self._writing = f"answer-{len(self._artifacts) + 1}"
            self._artifacts[self._writing] = []
        self._artifacts[self._writing].append(text)
        self._show(text, append=not fresh)

    def _whole(self, text: str) -> None:
        """An answer is complete: usually it has come piece by piece."""
        if not self._writing and not text:
            return
        if not self._writing:
            self._append(text)
        elif "".join(self._artifacts[self._writing]) != text:
            self._artifacts[self._writing] = [text]
            self._show(text, append=False)
        self._close_artifact()

    def _close_artifact(self) -> None:
        if self._writing:
            self._show("", append=True, last=True)
            self._writing = ""

    def _show(self, text: str, *, append: bool, last: bool = False) -> None:
        artifact = A2aArtifact(id=self._writing, name="answer", parts=(A2aPart(text=text),))
        self._publish(ArtifactUpdate(task=self.id, context=self.context, artifact=artifact, append=append, last=last))

    def _progress(self, text: str, metadata: dict[str, str]) -> None:
        """Seen by who watches now; it is not kept."""
        status = A2aStatus(state="working", message=self._words(text), timestamp=timestamp(time.time()))
        if self.status.state == "working":
            self._publish(StatusUpdate(task=self.id, context=self.context, status=status, metadata=dict(metadata)))

    def _ask_or_go_on(self) -> None:
        asked = next(iter(self._served.questions.values()), None)
        self._asking = asked.request if asked is not None else ""
        if asked is None:
            return self._change("working")
        parts = parts_of(asked)
        message = A2aMessage(id=new_id("message"), role="agent", parts=parts, context=self.context, task=self.id)
        self.note(message)
        self._set(A2aStatus(state="input-required", message=message, timestamp=timestamp(time.time())))

    def _end(self, event: events.TurnEnded) -> None:
        if event.text and not self._artifacts:
            self._append(event.text)
        self._close_artifact()
        self._change(ENDINGS.get(event.outcome, "failed"), event.error.message if event.error is not None else "")

    def _change(self, state: A2aState, words: str = "") -> None:
        message = self._words(words) if words else None
        if message is not None:
            self.note(message)
        self._set(A2aStatus(state=state, message=message, timestamp=timestamp(time.time())))

    def _set(self, status: A2aStatus) -> None:
        self.status = status
        if status.state in (*TERMINAL, *INTERRUPTED):
            self._resting.set()
        else:
            self._resting.clear()
        metadata = self._usage() if self.ended else {}
        update = StatusUpdate(task=self.id, context=self.context, status=status, metadata=metadata)
        self._publish(update)
        self.on_status(update)

    def _words(self, text: str) -> A2aMessage:
        parts = (A2aPart(text=text),)
        return A2aMessage(id=new_id("message"), role="agent", parts=parts, context=self.context, task=self.id)

    def _usage(self) -> dict[str, dict[str, float]]:
        spent = self._served.totals.summary().usage
        if not spent.calls:
            return {}
        counted = {"inputTokens": spent.input_tokens, "outputTokens": spent.output_tokens}
        cost = {} if spent.cost_usd is None else {"costUsd": spent.cost_usd}
        return {"usage": {**counted, **cost}}

    def _publish(self, event: A2aEvent) -> None:
        for queue in [*self._watchers]:
            if queue.qsize() >= BEHIND:
                self._watchers.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(event)
        if self.ended:
            self._watchers.clear()
