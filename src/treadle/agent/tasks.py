"""Background tasks of a session, subagents and processes: snapshots, events, one way to wait and one to end them."""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from treadle.agent.tools.files import cut_character
from treadle.errors import LocalError, NotFound, TreadleError
from treadle.events import (
    FINISHED,
    AnyEvent,
    ErrorInfo,
    Event,
    FileChanged,
    Message,
    Task,
    TaskChanged,
    TaskGroup,
    TaskGroupChanged,
    TaskStatus,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.io.files import created, open_append, part, storage_error
from treadle.io.tasks import checked, looked
from treadle.session import Confinement, Mode, Session, SessionSpec, Start, Subagent, Toolset, Watching
from treadle.sessions.session import error_info
from treadle.sessions.totals import Totals, TurnSummary, TurnTotals, run_turn

if TYPE_CHECKING:
    from treadle.io.process.child import Child


# The kinds of subagents, and what one is told to do.

Isolation: TypeAlias = Literal["none", "worktree"]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What one subagent has to do, and how."""

    prompt: str
    label: str
    agent_type: str | None = None
    model: str | None = None
    """None: the model of the session that starts it."""
    isolation: Isolation = "none"
    id: str | None = None
    """The id of its task; None: the next number."""
    call: str | None = None
    """The tool call that starts it."""


AgentType: TypeAlias = Subagent

READING = ("read_file", "glob", "grep", "web_fetch")
AGENT_TYPES = {
    kind.name.lower(): kind
    for kind in (
        AgentType(
            name="general-purpose",
            description="researches and carries out a task of several steps",
            prompt="You carry out one task for another agent. Your last message is all it will see: make it complete.",
        ),
        AgentType(
            name="Explore",
            description="finds and reads code; changes nothing",
            prompt="You explore code for another agent and change nothing. Answer with what you found, and where.",
            tools=READING,
        ),
        AgentType(
            name="Plan",
            description="reads and plans; changes nothing",
            prompt="You plan a change for another agent and change nothing. Answer with steps and their files.",
            tools=READING,
        ),
    )
}


def kinds(more: Iterable[Subagent] = ()) -> dict[str, Subagent]:
    """Ours and further ones, by name in lower case; a further one replaces ours of the same name."""
    return {**AGENT_TYPES, **{kind.name.lower(): kind for kind in more}}


def find_type(name: str | None, known: dict[str, Subagent] | None = None) -> Subagent:
    known = AGENT_TYPES if known is None else known
    kind = known.get((name or "general-purpose").lower())
    if kind is None:
        names = ", ".join(kind.name for kind in known.values())
        raise NotFound(f"there is no agent type {name!r}", hint=f"the types are {names}")
    return kind


def as_main(spec: SessionSpec, kind: Subagent) -> SessionSpec:
    """The spec of a conversation that itself has this kind's prompt, tools and model.

    What was asked for beside it wins; of tools, those that both name are offered.
    """
    tools, instructions = spec.tools, spec.instructions
    offered = next((names for names in (kind.tools, tools.offered) if names is not None), None)
    if kind.tools is not None and tools.offered is not None:
        offered = tuple(name for name in kind.tools if name in tools.offered)
    return msgspec.structs.replace(
        spec,
        model=spec.model or kind.model,
        instructions=msgspec.structs.replace(instructions, system=instructions.system or kind.prompt),
        tools=msgspec.structs.replace(tools, offered=offered, denied=(*tools.denied, *kind.denied)),
        limits=msgspec.structs.replace(spec.limits, max_iterations=spec.limits.max_iterations or kind.max_turns),
    )


def child_spec(
    spec: SessionSpec, kind: AgentType, task: Task, tools: tuple[str, ...], mode: Mode | None
) -> SessionSpec:
    """What a subagent's session is opened with; `mode` is the mode of its parent now."""
    return msgspec.structs.replace(
        spec,
        cwd=task.cwd,
        tools=Toolset(offered=tools),
        limits=msgspec.structs.replace(spec.limits, max_iterations=kind.max_turns or spec.limits.max_iterations),
        instructions=msgspec.structs.replace(spec.instructions, append=kind.prompt),
        start=Start(persist=False, name=spec.start.name),
        mode=mode,
    )


# What a subagent says and does, as text in a file that a person can read while it works.

WIDTH = 200
READ_CAP = 64 * 1024


class TaskLog:
    """Written as things happen. Without a path nothing is written."""

    def __init__(self, path: str | None) -> None:
        self._fd = -1
        self._fresh = True
        if path is not None:
            self._fd = open_append(path)
        self._path = path or ""

    def note(self, event: AnyEvent) -> None:
        if event.parent is not None:
            return
        match event:
            case TextDelta(text=text):
                self._write(text)
            case ToolStarted(name=name):
                self.line(f"● {name} {first_argument(event.args) or ''}".rstrip())
            case ToolEnded(result=result, ok=ok):
                self.line(f"  {'' if ok else 'failed: '}{' '.join(result.split())[:WIDTH]}")
            case ToolDenied(name=name, reason=reason):
                self.line(f"✗ {name} was not allowed: {reason}")
            case Message() | TurnEnded():
                self.line("")

    def line(self, text: str) -> None:
        self._write(("" if self._fresh else "\n") + (f"{text}\n" if text else ""))

    def _write(self, text: str) -> None:
        if text and self._fd >= 0:
            self._fresh = text.endswith("\n")
            try:
                os.write(self._fd, text.encode(errors="replace"))
            except OSError as error:
                raise storage_error(error, self._path, "write") from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def first_argument(args: Any) -> str | None:
    """The first argument, for a line of progress."""
    if isinstance(args, dict) and args:
        return str(next(iter(args.values())))[:WIDTH]
    return None


def read_log(path: str | None, offset: int = 0) -> tuple[str, int, int]:
    """(a part of the log from `offset` bytes on, where the next part begins, how long the log is now)."""
    if path is None:
        return "", 0, 0
    try:
        data, size = part(path, offset, READ_CAP)
    except FileNotFoundError:
        return "", 0, 0
    except OSError as error:
        raise storage_error(error, path, "read") from error
    # A character that is split begins the next part.
    used = len(data) - (len(cut_character(data)) if len(data) == READ_CAP else 0)
    return data[:used].decode(errors="replace"), min(offset, size) + used, size


SUBAGENTS = 4
PREVIEW = 200
LOG_CAP = 64 << 20
CUT = b"\n[more came than is kept here]\n"
LAST_WORDS = 2.0
"""How many seconds a stopped subagent's last events have when no one reads them."""


OpenChild = Callable[[str, AgentType, Task], Awaitable[Session]]
"""(task id, type, snapshot) -> the session of a subagent."""


class RunningTask:
    """A task and what runs it."""

    def __init__(self, task: Task, watch: Callable[[Task], None] | None) -> None:
        self.task = task
        self.watch = watch
        self.ended = asyncio.Event()
        self.work: asyncio.Task[None] | None = None
        self.start: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.child: Session | None = None
        self.turn: str | None = None
        self.reason = ""


class Tasks:
    """Implements tools.base.Background."""

    def __init__(
        self,
        *,
        session_id: str,
        emit: Callable[[Event], None],
        open_child: OpenChild,
        finished: Callable[[Task], None],
        directory: Callable[[], str],
        cwd: str,
        room: Callable[[], Awaitable[None]],
        limit: int = SUBAGENTS,
        pid: int | None = None,
        watching: Watching | None = None,
        kinds: Callable[[], dict[str, AgentType]] = kinds,
    ) -> None:
        self._kinds = kinds
        self._session_id = session_id
        self._emit = emit
        self._open_child = open_child
        self._finished = finished
        self._directory = directory
        self._cwd = cwd
        self._room = room
        self._pid = pid
        """The process that runs the subagents, if it is a separate one."""
        self._watching = watching
        self._free = limit
        self._waiting: deque[RunningTask] = deque()
        self._all: dict[str, RunningTask] = {}
        self._numbers = {"agent": 0, "process": 0}

    # Starting

    async def run_agent(
        self, prompt: str, *, label: str, agent_type: str | None, background: bool, call: str | None = None
    ) -> Task:
        work = Assignment(prompt=prompt, label=label, agent_type=agent_type, call=call)
        return await self.run(work, background=background)

    async def run(self, work: Assignment, *, background: bool) -> Task:
        """Start a subagent. With background=False, returns when it has ended."""
        task = self.add(work, background=background)
        return task if background else await self.wait(task.id)

    def add(self, work: Assignment, *, background: bool = True, watch: Callable[[Task], None] | None = None) -> Task:
        """Start a subagent, now or when one of the running ones has ended; `watch` is told how it ended."""
        kind = find_type(work.agent_type, self._kinds())
        running = self._create(
            "agent",
            work.id,
            watch,
            label=work.label,
            call=work.call,
            mode="background" if background else "foreground",
            agent_type=kind.name,
            model=work.model or kind.model,
            isolation=work.isolation if work.isolation != "none" else None,
            prompt_preview=work.prompt[:PREVIEW],
            pid=self._pid,
        )
        running.start = partial(self._agent, running, kind, work.prompt)
        self._waiting.append(running)
        self._fill()
        return running.task

    async def start_process(
        self,
        command: str,
        *,
        cwd: str,
        env: dict[str, str],
        confinement: Confinement | None = None,
        call: str | None = None,
    ) -> Task:
        from treadle.io.sandbox.start import start  # imported here because few sessions have tasks

        running = self._create("process", label=command[:60], command_preview=command[:PREVIEW], cwd=cwd, call=call)
        check = None
        try:
            path = os.path.join(self._directory(), f"{running.task.id}.log")
            check = await looked(self._watching) if self._watching else None
            child = await start(confinement, ["bash", "-c", command], cwd=cwd, env=env, stderr="stdout")
        except BaseException as error:
            await checked(check)
            if isinstance(error, TreadleError):
                self._end(running, "failed", error=error_info(error))
            raise
        self._change(running, "updated", pid=child.pid, log_path=path)
        running.work = asyncio.create_task(self._carry(running, partial(self._process, running, child, path, check)))
        return running.task

    def _create(
        self, kind: str, task_id: str | None = None, watch: Callable[[Task], None] | None = None, **fields: Any
    ) -> RunningTask:
        self._numbers[kind] += 1
        fields.setdefault("cwd", self._cwd)
        task = Task(
            id=task_id or f"{kind}_{self._numbers[kind]}",
            kind=kind,  # type: ignore[arg-type]
            status="queued",
            parent_session=self._session_id,
            depth=1,
            updated_at=time.time(),
            **fields,
        )
        running = self._all[task.id] = RunningTask(task, watch)
        self._emit(TaskChanged(change="created", task_id=task.id, task=task))
        return running

    def _fill(self) -> None:
        """Start those that wait, as far as there is room. Their messages come after what our caller says now."""
        while self._free and self._waiting:
            running = self._waiting.popleft()
            assert running.start is not None
            self._free -= 1
            self._change(running, "started", status="running", started_at=time.time())
            running.work = asyncio.create_task(self._carry(running, running.start))
            running.work.add_done_callback(self._leave)
            try:
                path = os.path.join(self._directory(), f"{running.task.id}.log")
                self._change(running, "updated", log_path=path)
            except TreadleError as error:
                self._emit(Warned(message=f"{running.task.id} keeps no log: {error}", code="task_log"))

    def _leave(self, work: object) -> None:
        self._free += 1
        self._fill()

    # Carrying

    async def _carry(self, running: RunningTask, work: Callable[[], Awaitable[None]]) -> None:
        """Whatever the work does, the task ends in one of three ways and reports it once."""
        try:
            await work()
        except asyncio.CancelledError:
            self._end(running, "cancelled", error=_why(running))
        except Exception as error:
            self._end(running, "failed", error=error_info(error))

    async def _agent(self, running: RunningTask, kind: AgentType, prompt: str) -> None:
        log = TaskLog(running.task.log_path)
        try:
            if running.task.isolation == "worktree":
                summary = await self._isolated(running, kind, prompt, log)
            else:
                summary = await self._converse(running, kind, prompt, log)
        finally:
            log.close()
        fields: dict[str, Any] = {"output": summary.text, "usage": _usage(summary.usage)}
        if summary.outcome == "completed":
            self._end(running, "completed", **fields)
        elif summary.outcome == "interrupted":
            self._end(running, "cancelled", error=_why(running), **fields)
        else:
            self._end(running, "failed", error=summary.error, **fields)

    async def _isolated(self, running: RunningTask, kind: AgentType, prompt: str, log: TaskLog) -> TurnSummary:
        from treadle.sandboxed.repositories import isolated

        cwd, place = running.task.cwd, None
        try:
            async with isolated(cwd, running.task.label) as place:
                self._change(running, "updated", cwd=place.cwd, worktree=place.top, branch=place.branch)
                for note in place.notes:
                    self._warn_of(f"{note} of {running.task.id}", log)
                return await self._converse(running, kind, prompt, log)
        finally:
            for note in place.problems if place is not None else ():
                self._warn_of(f"{running.task.id}: {note}", log)
            if place is not None and not place.exists:
                self._change(running, None, cwd=cwd, worktree=None, branch=None)
            elif place is not None and not place.published:
                self._change(running, None, branch=None)

    def _warn_of(self, note: str, log: TaskLog) -> None:
        self._emit(Warned(message=note, code="worktree"))
        log.line(f"! {note}")

    async def _converse(self, running: RunningTask, kind: AgentType, prompt: str, log: TaskLog) -> TurnSummary:
        child = running.child = await self._open_child(running.task.id, kind, running.task)
        totals = TurnTotals()
        try:
            async for event in run_turn(child, prompt):
                totals.add(event)
                running.turn = event.turn
                log.note(event)
                self._forward(running, event)
                await self._room()
        finally:
            running.turn = None
            await child.close()
        return totals.summary()

    async def _process(
        self, running: RunningTask, child: Child, path: str, check: Callable[[], None] | None = None
    ) -> None:
        self._change(running, "started", status="running", started_at=time.time())
        try:
            # The command is over when its shell is; what it left running is ended with it, which closes the pipe.
            async with child:
                reading = asyncio.create_task(self._keep_output(running, child, path))
                code = await child.wait()
                self._change(running, None, exit_code=code)
                await child.stop()
                await reading
                exceeded = child.exceeded("")
        finally:
            if check is not None:
                await asyncio.to_thread(check)  # also when it was stopped: then it fails, and says why
        if exceeded:
            self._emit(Warned(message=f"{running.task.id}: {exceeded}", code="sandbox"))
            return self._end(running, "failed", error=error_info(LocalError(exceeded)))
        self._end(running, "completed" if code == 0 else "failed")

    async def _keep_output(self, running: RunningTask, child: Child, path: str) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        left = LOG_CAP
        try:
            with created(path) as log:
                while chunk := await child.stdio.read():
                    if left > 0:
                        log.write(chunk[:left] if len(chunk) <= left else chunk[:left] + CUT)
                        left -= len(chunk)
                    self._small(running, "text", delta=decoder.decode(chunk))
                    await self._room()
        except OSError as error:
            await child.stop()  # with no one to read its output, it would wait for ever
            raise storage_error(error, path, "write") from error

    def _forward(self, running: RunningTask, event: AnyEvent) -> None:
        """What the session's readers see of a subagent."""
        match event:
            case TextDelta(text=text):
                self._small(running, "text", delta=text)
            case ToolStarted(name=name):
                self._change(running, None, current_action=name)
                first = first_argument(event.args)
                self._small(running, "tool_start", tool=name, first=first, call=event.call, args=event.args)
            case ToolEnded(name=name, ok=ok):
                failed = {} if ok else {"error": event.result[:PREVIEW]}
                self._small(running, "tool_end", tool=name, ok=ok, call=event.call, result=event.result, **failed)
            case Usage() | FileChanged() | ToolDenied():
                self._emit(msgspec.structs.replace(event, seq=0, ts=0.0, turn="", parent=running.task.id))
            case TurnEnded():
                pass

    # Changing

    def _change(self, running: RunningTask, change: str | None, **fields: Any) -> None:
        running.task = msgspec.structs.replace(running.task, updated_at=time.time(), **fields)
        if change:
            self._emit(TaskChanged(change=change, task_id=running.task.id, task=running.task))  # type: ignore[arg-type]

    def _small(self, running: RunningTask, change: str, **data: Any) -> None:
        self._emit(TaskChanged(change=change, task_id=running.task.id, data=data))  # type: ignore[arg-type]

    def _end(self, running: RunningTask, status: TaskStatus, **fields: Any) -> None:
        self._change(
            running, status, status=status, completed_at=time.time(), unread=True, current_action=None, **fields
        )
        running.ended.set()
        if running.watch is not None:
            running.watch(running.task)
        if running.task.mode == "background":
            self._finished(running.task)

    @contextmanager
    def asking(self, task_id: str | None) -> Iterator[None]:
        """Marks the task while a person is asked something for it."""
        running = self._all.get(task_id or "")
        if running is None or running.task.status != "running":
            yield
            return
        self._change(running, "updated", status="waiting_permission")
        try:
            yield
        finally:
            self._change(running, "updated", status="running")

    # Using

    def list(self) -> list[Task]:
        return [running.task for running in self._all.values()]

    def get(self, task_id: str) -> Task:
        return self._find(task_id).task

    def has(self, task_id: str) -> bool:
        return task_id in self._all

    def seen(self, task_id: str) -> None:
        """Someone has read its output."""
        if task_id in self._all:
            self._change(self._all[task_id], None, unread=False)

    async def wait(self, task_id: str) -> Task:
        """Wait for its end. Interrupting the waiter also interrupts a task in the foreground."""
        running = self._find(task_id)
        try:
            await running.ended.wait()
        except asyncio.CancelledError:
            if running.task.mode == "foreground":
                await self.stop(task_id)
            raise
        self.seen(task_id)
        return running.task

    async def send(self, task_id: str, text: str) -> bool:
        """Say something to a running subagent."""
        running = self._find(task_id)
        if running.child is None or running.turn is None:
            return False
        return await running.child.steer(running.turn, text)

    async def stop(self, task_id: str, reason: str = "") -> Task:
        """End it, and wait until nothing of it is left."""
        running = self._find(task_id)
        running.reason = running.reason or reason
        if running in self._waiting:
            self._waiting.remove(running)
            self._end(running, "cancelled", error=_why(running))
        elif running.work is not None and not running.ended.is_set():
            await asyncio.sleep(0)  # let it begin, so that it ends by itself what it was given
            if running.child is not None and running.turn is not None:
                await running.child.interrupt(running.turn, reason)  # so it still reports what it has said
                await asyncio.wait([running.work], timeout=LAST_WORDS)
            running.work.cancel()
            await asyncio.wait([running.work])
        return running.task

    async def forget(self, task_id: str) -> None:
        await self.stop(task_id)
        del self._all[task_id]
        self._emit(TaskChanged(change="closed", task_id=task_id))

    async def stop_all(self) -> None:
        # Those that wait first: otherwise they would start in place of those that end.
        order = sorted(self._all.values(), key=lambda running: running not in self._waiting)
        await asyncio.gather(*(self.stop(running.task.id) for running in order))

    def _find(self, task_id: str) -> RunningTask:
        if task_id not in self._all:
            raise NotFound(f"there is no task {task_id!r}", hint="/agent list shows them")
        return self._all[task_id]


def _why(running: RunningTask) -> ErrorInfo | None:
    return ErrorInfo(code="cancelled", message=running.reason) if running.reason else None


def _usage(totals: Totals) -> Usage:
    return Usage(
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cache_read_tokens=totals.cache_read_tokens,
        cache_write_tokens=totals.cache_write_tokens,
        reasoning_tokens=totals.reasoning_tokens,
        cost_usd=totals.cost_usd,
    )


# Tasks that were started together: their events, waiting for all of them, and their results in a few lines.

LABEL = "agent parallel"
DETAIL = 200


class UnknownGroup(NotFound):
    def __init__(self, group_id: str) -> None:
        super().__init__(f"Unknown background job group: {group_id}")


class Groups:
    def __init__(self, tasks: Tasks, emit: Callable[[Event], None], session_id: str) -> None:
        self._tasks = tasks
        self._emit = emit
        self._session_id = session_id
        self._groups: dict[str, TaskGroup] = {}
        self._ended: dict[str, dict[str, Task]] = {}
        self._over: dict[str, asyncio.Event] = {}

    def start(self, work: Sequence[Assignment], *, group_id: str | None = None, detached: bool = False) -> TaskGroup:
        """Start them all; first each task reports that it exists, then the group does."""
        for one in work:
            find_type(one.agent_type)
        group_id = group_id or f"group_{len(self._groups) + 1}"
        self._over[group_id] = asyncio.Event()
        self._ended[group_id] = {}
        tasks = [self._tasks.add(one, watch=partial(self._member_ended, group_id)) for one in work]
        now = time.time()
        group = self._groups[group_id] = TaskGroup(
            id=group_id,
            tasks=tuple(task.id for task in tasks),
            status="running",
            wait_policy="detached" if detached else "wait_all",
            parent_session=self._session_id,
            label=LABEL,
            created_at=now,
            updated_at=now,
        )
        self._emit(TaskGroupChanged(change="created", group=group))
        self._update(group_id)
        return group

    def _member_ended(self, group_id: str, task: Task) -> None:
        self._ended[group_id][task.id] = task
        self._update(group_id)

    def _update(self, group_id: str) -> None:
        group, ended = self._groups[group_id], self._ended[group_id]
        results = tuple(ended[task] for task in group.tasks if task in ended)
        now, over = time.time(), len(results) == len(group.tasks)
        group = self._groups[group_id] = msgspec.structs.replace(
            group,
            results=results,
            status="completed" if over else "running",
            updated_at=now,
            completed_at=now if over else None,
        )
        self._emit(TaskGroupChanged(change="completed" if over else "updated", group=group))
        if over:
            self._over[group_id].set()

    def get(self, group_id: str) -> TaskGroup:
        if group_id not in self._groups:
            raise UnknownGroup(group_id)
        return self._groups[group_id]

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    async def wait(self, group_id: str) -> TaskGroup:
        self.get(group_id)
        await self._over[group_id].wait()
        return self._groups[group_id]

    async def stop(self, group_id: str, reason: str = "") -> TaskGroup:
        await asyncio.gather(*(self._tasks.stop(task, reason) for task in self.get(group_id).tasks))
        return self._groups[group_id]


# A group in words...


def succeeded(group: TaskGroup) -> bool:
    return group.status == "completed" and all(task.status == "completed" for task in group.results)


def summary(group: TaskGroup) -> str:
    """One line on the group, one for each task that has ended, then the answers that did not fit into a line."""
    count = {status: sum(task.status == status for task in group.results) for status in FINISHED}
    total = len(group.tasks)
    lines = [
        f"Background job group {group.id}: {group.status} ({count['completed']}/{total} completed, "
        f"{count['failed']} failed, {count['cancelled']} cancelled, {total - len(group.results)} pending)"
    ]
    lines += map(_line, group.results)
    for task in group.results:
        if task.output and _detail(task) != task.output.strip():
            lines += ["", f"## {task.label} ({task.id})", "", task.output.strip()]
    return "\n".join(lines)


def _line(task: Task) -> str:
    where = f" (output: {task.log_path})" if task.log_path else ""
    return f"[{task.status}] {task.label} {task.id}: {_detail(task)}{where}{worktree_note(task, ' ')}"


def worktree_note(task: Task, before: str) -> str:
    """Where the changes of a task with its own worktree are, if it made any."""
    if not task.worktree:
        return ""
    return f"{before}(branch: {task.branch} in {task.worktree})" if task.branch else f"{before}(in {task.worktree})"


def _detail(task: Task) -> str:
    detail = task.error.message if task.error is not None else (task.output or "")
    detail = " ".join(detail.split())
    return (detail if len(detail) <= DETAIL else detail[: DETAIL - 1] + "…") or "no answer"
