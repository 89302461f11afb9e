"""Background tasks of a session, subagents and processes: snapshots, events, one way to wait and one to end them."""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from treadle.errors import NotFound, TreadleError
from treadle.events import (
    AnyEvent,
    Event,
    FileChanged,
    Task,
    TaskChanged,
    TaskStatus,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
)
from treadle.io.child import Child, start
from treadle.session import Session
from treadle.work.fold import Fold, Totals
from treadle.work.session import error_info, run_turn

SUBAGENTS = 4
PREVIEW = 200
FINISHED: tuple[TaskStatus, ...] = ("completed", "failed", "cancelled")


class AgentType(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None


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

OpenChild = Callable[[str, AgentType, Task], Awaitable[Session]]
"""(task id, type, snapshot) -> the session of a subagent."""


class Running:
    """A task and what carries it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.ended = asyncio.Event()
        self.work: asyncio.Task[None] | None = None
        self.child: Session | None = None
        self.turn: str | None = None


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
        limit: int = SUBAGENTS,
    ) -> None:
        self._session_id = session_id
        self._emit = emit
        self._open_child = open_child
        self._finished = finished
        self._directory = directory
        self._cwd = cwd
        self._limit = asyncio.Semaphore(limit)
        self._all: dict[str, Running] = {}
        self._numbers = {"agent": 0, "process": 0}

    # Starting

    async def run_agent(
        self, prompt: str, *, label: str, agent_type: str | None, background: bool, **more: Any
    ) -> Task:
        kind = AGENT_TYPES.get((agent_type or "general-purpose").lower())
        if kind is None:
            names = ", ".join(known.name for known in AGENT_TYPES.values())
            raise NotFound(f"there is no agent type {agent_type!r}", hint=f"the types are {names}")
        running = self._create(
            "agent",
            label=label,
            mode="background" if background else "foreground",
            agent_type=kind.name,
            prompt_preview=prompt[:PREVIEW],
            **more,
        )
        running.work = asyncio.create_task(self._carry(running, self._agent(running, kind, prompt)))
        if not background:
            await self.wait(running.task.id)
        return running.task

    async def start_process(self, command: str, *, cwd: str, env: dict[str, str]) -> Task:
        running = self._create("process", label=command[:60], command_preview=command[:PREVIEW], cwd=cwd)
        path = os.path.join(self._directory(), f"{running.task.id}.log")
        child = await start(["bash", "-c", command], cwd=cwd, env=env, stderr="stdout")
        self._change(running, "updated", pid=child.pid, log_path=path)
        running.work = asyncio.create_task(self._carry(running, self._process(running, child, path)))
        return running.task

    def _create(self, kind: str, **fields: Any) -> Running:
        self._numbers[kind] += 1
        fields.setdefault("cwd", self._cwd)
        now = time.time()
        task = Task(
            id=f"{kind}_{self._numbers[kind]}",
            kind=kind,  # type: ignore[arg-type]
            status="queued",
            parent_session=self._session_id,
            updated_at=now,
            **fields,
        )
        running = self._all[task.id] = Running(task)
        self._emit(TaskChanged(change="created", task_id=task.id, task=task))
        return running

    # Carrying

    async def _carry(self, running: Running, work: Awaitable[None]) -> None:
        """Whatever the work does, the task ends in one of three ways and says so once."""
        try:
            await work
        except asyncio.CancelledError:
            self._end(running, "cancelled")
        except TreadleError as error:
            self._end(running, "failed", error=error_info(error))
        except Exception as error:
            self._end(running, "failed", error=error_info(error))

    async def _agent(self, running: Running, kind: AgentType, prompt: str) -> None:
        async with self._limit:
            self._change(running, "started", status="running", started_at=time.time())
            child = running.child = await self._open_child(running.task.id, kind, running.task)
            folded = Fold()
            try:
                async for event in run_turn(child, prompt):
                    folded.add(event)
                    running.turn = event.turn
                    self._forward(running, event)
            finally:
                running.turn = None
                await child.close()
            summary = folded.summary()
            fields: dict[str, Any] = {"output": summary.text, "usage": _usage(summary.usage)}
            if summary.outcome == "completed":
                self._end(running, "completed", **fields)
            elif summary.outcome == "interrupted":
                self._end(running, "cancelled", **fields)
            else:
                self._end(running, "failed", error=summary.error, **fields)

    async def _process(self, running: Running, child: Child, path: str) -> None:
        self._change(running, "started", status="running", started_at=time.time())
        # The command is over when its shell is; what it left running goes with it, and so closes the pipe.
        async with child:
            reading = asyncio.create_task(self._keep_output(running, child, path))
            code = await child.wait()
            await child.stop()
            await reading
        self._end(running, "completed" if code == 0 else "failed", exit_code=code)

    async def _keep_output(self, running: Running, child: Child, path: str) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with open(path, "wb", buffering=0) as log:
            while chunk := await child.stdio.read():
                log.write(chunk)
                self._small(running, "text", delta=decoder.decode(chunk))

    def _forward(self, running: Running, event: AnyEvent) -> None:
        """What the session's readers see of a subagent."""
        match event:
            case TextDelta(text=text):
                self._small(running, "text", delta=text)
            case ToolStarted(name=name):
                self._change(running, None, current_action=name)
                self._small(running, "tool_start", tool=name, first=_first(event.args))
            case ToolEnded(name=name, ok=ok):
                self._small(running, "tool_end", tool=name, ok=ok)
            case Usage() | FileChanged() | ToolDenied():
                self._emit(msgspec.structs.replace(event, seq=0, ts=0.0, turn="", parent=running.task.id))
            case TurnEnded():
                pass

    # Changing

    def _change(self, running: Running, change: str | None, **fields: Any) -> None:
        running.task = msgspec.structs.replace(running.task, updated_at=time.time(), **fields)
        if change:
            self._emit(TaskChanged(change=change, task_id=running.task.id, task=running.task))  # type: ignore[arg-type]

    def _small(self, running: Running, change: str, **data: Any) -> None:
        self._emit(TaskChanged(change=change, task_id=running.task.id, data=data))  # type: ignore[arg-type]

    def _end(self, running: Running, status: TaskStatus, **fields: Any) -> None:
        self._change(
            running, status, status=status, completed_at=time.time(), unread=True, current_action=None, **fields
        )
        running.ended.set()
        if running.task.mode == "background":
            self._finished(running.task)

    # Using

    def list(self) -> list[Task]:
        return [running.task for running in self._all.values()]

    def get(self, task_id: str) -> Task:
        return self._find(task_id).task

    async def wait(self, task_id: str) -> Task:
        """Wait for its end. When the waiter is interrupted, so is a task in the foreground."""
        running = self._find(task_id)
        try:
            await running.ended.wait()
        except asyncio.CancelledError:
            if running.task.mode == "foreground":
                await self.stop(task_id)
            raise
        self._change(running, None, unread=False)
        return running.task

    async def send(self, task_id: str, text: str) -> bool:
        """Say something to a running subagent."""
        running = self._find(task_id)
        if running.child is None or running.turn is None:
            return False
        return await running.child.steer(running.turn, text)

    async def stop(self, task_id: str) -> Task:
        """End it, and wait until nothing of it is left."""
        running = self._find(task_id)
        if running.work is not None and not running.ended.is_set():
            running.work.cancel()
            await asyncio.wait([running.work])
        return running.task

    async def forget(self, task_id: str) -> None:
        await self.stop(task_id)
        del self._all[task_id]
        self._emit(TaskChanged(change="closed", task_id=task_id))

    async def stop_all(self) -> None:
        await asyncio.gather(*(self.stop(task_id) for task_id in list(self._all)))

    def _find(self, task_id: str) -> Running:
        if task_id not in self._all:
            raise NotFound(f"there is no task {task_id!r}", hint="/agent list shows them")
        return self._all[task_id]


def _usage(totals: Totals) -> Usage:
    return Usage(
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cache_read_tokens=totals.cache_read_tokens,
        cache_write_tokens=totals.cache_write_tokens,
        reasoning_tokens=totals.reasoning_tokens,
        cost_usd=totals.cost_usd,
    )


def _first(args: Any) -> str | None:
    """The first argument, for a line of progress."""
    if isinstance(args, dict) and args:
        return str(next(iter(args.values())))[:PREVIEW]
    return None
