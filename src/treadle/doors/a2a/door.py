"""Any agent for clients that speak A2A, without HTTP: the methods, conversations and tasks.

A context is a conversation with the agent (one session), and a task is one turn of it. Each client sees only its own.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Literal, cast

import msgspec

from treadle import events
from treadle.doors.fields import FieldTable
from treadle.errors import Busy, ConfigError, LocalError, TreadleError, Unsupported
from treadle.events import Asked
from treadle.io.tasks import end_tasks, start_held
from treadle.session import Agent, AgentInfo, Answer, Prompt, Session, SessionSpec, Start
from treadle.sessions.abilities import can
from treadle.sessions.session import new_id
from treadle.sessions.totals import ServedTurn
from treadle.wire.a2a import messages
from treadle.wire.a2a.messages import (
    CONTENT_TYPE_NOT_SUPPORTED,
    EXTENDED_CARD_NOT_CONFIGURED,
    INTERRUPTED,
    METHODS,
    PUSH_NOT_SUPPORTED,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
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
    SendParams,
    StatusUpdate,
    TaskFilter,
    TaskQuery,
    plain,
)
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from treadle.wire.common.jsontext import dumps, timestamp

# A task: one turn of a session, as those who watch it see it.

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
        self._publish(StatusUpdate(task=self.id, context=self.context, status=status, metadata=metadata))

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


# A message of a client as a prompt.

_TEXTS = ("application/json", "application/xml", "application/yaml", "application/toml")


def prompt_of(message: A2aMessage, *, images: bool) -> Prompt:
    """Its text as it stands: a slash or an @ in it means nothing. What the agent cannot be given is refused."""
    pictures = [part.raw for part in message.parts if part.raw is not None and part.media_type.startswith("image/")]
    if pictures and not images:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, "this agent accepts no images")
    text = "\n\n".join(filter(None, map(_words, message.parts)))
    if not text.strip() and not pictures:
        raise Fault(INVALID_PARAMS, "message.parts: there is nothing in them")
    return Prompt(text=text, verbatim=True, images=tuple(pictures))


def _words(part: A2aPart) -> str:
    if part.text is not None:
        return part.text
    if part.url is not None:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, "no file is fetched from an address: send its content")
    if part.raw is None:
        return dumps(part.data)
    if part.media_type.startswith("image/"):
        return ""
    if not part.media_type.startswith("text/") and part.media_type not in _TEXTS:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, f"a file of the type {part.media_type or 'unknown'!r} is not taken")
    try:
        text = part.raw.decode()
    except UnicodeDecodeError:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, f"{part.filename or 'a file'} is not text in UTF-8") from None
    return f"{part.filename}:\n{text}" if part.filename else text


# The page of tasks that a client asks for: the latest change first.


def listed(tasks: Sequence[ServedTask], params: dict[str, Any]) -> dict[str, Any]:
    asked = messages.read(params, TaskFilter)
    state = "" if asked.status == "TASK_STATE_UNSPECIFIED" else asked.status
    if state and not state.startswith("TASK_STATE_"):
        raise Malformed(f"status is {state[:80]!r}")
    wanted = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    after = asked.status_timestamp_after
    after = after.replace(tzinfo=UTC) if after is not None and after.tzinfo is None else after
    matching = [
        task
        for task in tasks
        if asked.context_id in ("", task.context)
        and wanted in ("", task.status.state)
        and (after is None or datetime.fromisoformat(task.status.timestamp) >= after)
    ]
    ordered = sorted(matching, key=_place, reverse=True)
    left = [task for task in ordered if not asked.page_token or _place(task) < _read_cursor(asked.page_token)]
    page = left[: asked.page_size]
    more = "|".join(_place(page[-1])) if len(left) > len(page) else ""
    shown = [plain(task.snapshot(asked.history_length, artifacts=asked.include_artifacts)) for task in page]
    found = [{"artifacts": [], **task} if asked.include_artifacts else task for task in shown]
    return {"tasks": found, "nextPageToken": more, "pageSize": asked.page_size, "totalSize": len(matching)}


def _place(task: ServedTask) -> tuple[str, str]:
    """Of two changes in one millisecond, the younger task counts as the later."""
    return task.status.timestamp, f"{task.number:012d}"


def _read_cursor(text: str) -> tuple[str, str]:
    when, bar, name = text.partition("|")
    if not bar:
        raise Malformed("pageToken is none of ours")
    return when, name


SESSIONS = 32
"""Conversations that are open at once. An idle one is closed for a new one, and resumed when it goes on."""
OF_ONE_CLIENT = 24
"""Of these, so that one client whose questions wait leaves room for others."""
TASKS = 1000
"""Tasks that are kept for a client; the oldest that have ended are forgotten."""
CONTEXT_LENGTH = 200


class ServedContext:
    """A context: its session is opened with its first message."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        """Held while its session is opened or resumed: a second message of the context waits and uses the same one."""
        self.session: Session | None = None
        self.session_id = ""
        """Of the session that it had, to resume it."""
        self.after = -1
        """Where its next task begins to read: at the warnings of a session that was just opened."""
        self.used = time.monotonic()
        self.tasks: list[ServedTask] = []

    @property
    def busy(self) -> bool:
        return self.opening.locked() or any(not task.ended for task in self.tasks)


class A2aDoor:
    """`base` is what every session is opened with."""

    def __init__(self, agent: Agent, info: AgentInfo, *, base: SessionSpec, warn: Callable[[str], None]) -> None:
        self.info = info
        self._agent = agent
        self._base = base
        self._warn = warn
        self._fields = FieldTable("a2a", INVALID_PARAMS)
        self._conversations: dict[tuple[str, str], ServedContext] = {}
        self._tasks: dict[str, ServedTask] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._methods: dict[str, Callable[[str, dict[str, Any]], Any]] = {
            "send": self._send,
            "get": self._get,
            "list": self._list,
            "cancel": self._cancel,
            "push": self._push,
            "card": self._card,
        }

    async def call(self, owner: str, method: str, params: dict[str, Any]) -> Any | AsyncGenerator[dict[str, Any]]:
        """The result for this client, or an iterator of results for a method that streams. Raises Fault."""
        operation = METHODS.get(method)
        if operation is None:
            raise Fault(METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")
        try:
            params = messages.as_camel(params)
            if unread := self._fields.judge(method, params):
                self._warn(f"{method}: not used here: {', '.join(unread)}")
            if operation == "stream":
                return self._streamed(await self._receive(owner, _given(params)), through=False)
            if operation == "subscribe":
                task = self._find(owner, messages.read(params, TaskQuery).id)
                if task.ended:
                    raise Fault(UNSUPPORTED_OPERATION, f"the task is {task.status.state}: there is nothing to follow")
                return self._streamed(task, through=True)
            return await self._methods[operation](owner, params)
        except Malformed as error:
            raise Fault(INVALID_PARAMS, str(error)) from error
        except TreadleError as error:
            raise fault_of(error) from error

    async def close(self) -> None:
        await end_tasks(*self._following)
        sessions = [each.session.close() for each in self._conversations.values() if each.session is not None]
        await asyncio.gather(*sessions, return_exceptions=True)

    # Messages

    async def _send(self, owner: str, params: dict[str, Any]) -> dict[str, Any]:
        given = _given(params)
        task = await self._receive(owner, given)
        if not given.configuration.return_immediately:
            await task.rest()
        return messages.written(task.snapshot(given.configuration.history_length))

    def _streamed(self, task: ServedTask, *, through: bool) -> AsyncGenerator[dict[str, Any]]:
        events = task.watch(through=through)  # from now on, not only when the first is asked for

        async def results() -> AsyncGenerator[dict[str, Any]]:
            async with aclosing(events):
                async for event in events:
                    yield messages.written(event)

        return results()

    async def _receive(self, owner: str, given: SendParams) -> ServedTask:
        """The task that this message starts or goes on with."""
        if given.configuration.task_push_notification_config:
            raise _no_push()
        message = given.message
        if message.task:
            task = self._find(owner, message.task)
            if message.context not in ("", task.context):
                raise Malformed("message.contextId is not that of the task")
            await task.hear(message)
        else:
            task = await self._begin(owner, given)
        return task

    async def _begin(self, owner: str, given: SendParams) -> ServedTask:
        prompt = prompt_of(given.message, images=can(self.info.capabilities, "images"))
        context = given.message.context or new_id("context")
        if len(context) > CONTEXT_LENGTH:
            raise Malformed(f"message.contextId has more than {CONTEXT_LENGTH} characters")
        conversation, session = await self._conversation(owner, context)
        after, conversation.after = conversation.after, -1
        task = ServedTask(session, context, given.message, owner, after)
        await task.begin(prompt)
        conversation.tasks = [each for each in conversation.tasks if not each.ended] + [task]
        self._keep(task)
        start_held(self._following, task.follow(), name=task.id)
        return task

    async def _conversation(self, owner: str, context: str) -> tuple[ServedContext, Session]:
        found = self._conversations.setdefault((owner, context), ServedContext())
        async with found.opening:
            found.used = time.monotonic()
            if found.session is None:
                try:
                    found.session = await self._open(owner, found)
                except BaseException:
                    if not found.session_id:
                        self._conversations.pop((owner, context), None)
                    raise
            return found, found.session

    async def _open(self, owner: str, conversation: ServedContext) -> Session:
        await self._make_room(owner)
        spec = self._base
        if conversation.session_id:
            if not can(self.info.capabilities, "resume"):
                raise LocalError(
                    f"this conversation was closed to make room, and {self.info.name} cannot resume an earlier one",
                    hint="begin a new context",
                )
            spec = msgspec.structs.replace(spec, start=Start(resume=conversation.session_id))
        try:
            session = await self._agent.open(spec)
        except TreadleError as error:  # it may name files here, which are no business of a client
            self._warn(f"a conversation could not be opened: {error}")
            raise Fault(INTERNAL_ERROR, f"the agent could not be started ({error.code})") from error
        conversation.session_id = session.id
        conversation.after = 0
        return session

    async def _make_room(self, owner: str) -> None:
        """Close the conversation that was idle the longest when there are too many. One that is being opened is busy,
        and so is the one that needs the room."""
        own = [each for (of, _), each in self._conversations.items() if of == owner]
        if sum(each.busy for each in own) > OF_ONE_CLIENT:
            raise Busy(f"{OF_ONE_CLIENT} conversations of this client are busy", hint="try again when one has ended")
        open_now = [each for each in self._conversations.values() if each.session is not None or each.busy]
        if len(open_now) <= SESSIONS:
            return
        idle = [each for each in open_now if not each.busy]
        if not idle:
            raise Busy(f"{SESSIONS} conversations are busy", hint="try again when one has ended")
        oldest = min(idle, key=lambda each: each.used)
        session, oldest.session = oldest.session, None
        if session is not None:
            await session.close()

    # Tasks

    def _keep(self, task: ServedTask) -> None:
        self._tasks[task.id] = task
        own = [each for each in self._tasks.values() if each.owner == task.owner]
        for old in [each for each in own if each.ended][: max(0, len(own) - TASKS)]:
            del self._tasks[old.id]

    def _find(self, owner: str, name: str) -> ServedTask:
        task = self._tasks.get(name)
        if task is None or task.owner != owner:
            raise Fault(TASK_NOT_FOUND, f"there is no task {name[:80]!r}")
        return task

    async def _get(self, owner: str, params: dict[str, Any]) -> dict[str, Any]:
        asked = messages.read(params, TaskQuery)
        return plain(self._find(owner, asked.id).snapshot(asked.history_length))

    async def _list(self, owner: str, params: dict[str, Any]) -> dict[str, Any]:
        return listed([task for task in self._tasks.values() if task.owner == owner], params)

    async def _cancel(self, owner: str, params: dict[str, Any]) -> dict[str, Any]:
        task = self._find(owner, messages.read(params, TaskQuery).id)
        if not task.ended:
            await task.cancel()
            if task.status.state == "canceled":
                return messages.plain(task.snapshot())
        raise Fault(TASK_NOT_CANCELABLE, f"the task is {task.status.state}")

    async def _card(self, owner: str, params: dict[str, Any]) -> dict[str, Any]:
        raise Fault(EXTENDED_CARD_NOT_CONFIGURED, "this agent has no other card than the public one")

    async def _push(self, owner: str, params: dict[str, Any]) -> Any:
        raise _no_push()


def _no_push() -> Fault:
    return Fault(PUSH_NOT_SUPPORTED, "this server calls no webhooks: stream the task, or ask for it")


def _given(params: dict[str, Any]) -> SendParams:
    """A message that is sent, unless its client accepts nothing that an agent here answers with."""
    given = messages.read_send(params)
    accepted = given.configuration.accepted_output_modes
    if accepted and not any(mode.startswith(("text", "*")) for mode in accepted):
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, "answers are text/plain, which acceptedOutputModes does not name")
    return given


def fault_of(error: TreadleError) -> Fault:
    if isinstance(error, Unsupported):
        return Fault(UNSUPPORTED_OPERATION, str(error))
    return Fault(INVALID_PARAMS if isinstance(error, ConfigError) else INTERNAL_ERROR, str(error))
