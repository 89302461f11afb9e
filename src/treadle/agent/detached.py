"""Groups of agents that go on when the process that started them ends, and that any other process can wait for.

    tasks/GROUP/plan.json        what was asked for; written before anything is started
    tasks/GROUP/events.jsonl     how it went: snapshots of tasks and of the group, one per line
    tasks/GROUP/requests.jsonl   what others want of it: messages for its tasks, and what is to stop
    tasks/GROUP/lock             held by the runner while it lives
    tasks/GROUP/output/          the logs of its tasks

The runner (`detached_runner.py`) does the work under its own keeper. Everybody else reads and appends
to files, and looks again after a moment. The disk has the truth: a group whose lock is free and that has not completed
was killed, and everything it had not finished has failed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from treadle.agent.configuration import Configuration
from treadle.agent.tasks import Assignment
from treadle.errors import LocalError, NotFound, StorageError
from treadle.events import (
    FINISHED,
    ErrorInfo,
    Event,
    Task,
    TaskChanged,
    TaskGroup,
    TaskGroupChanged,
    decode,
    encode,
)
from treadle.io import files, paths
from treadle.io.process.tree import detach
from treadle.io.records import FileRecord
from treadle.session import AgentInfo, Confinement, Instructions, Limits, Mode, Rules, SessionSpec, Start, Toolset

FORMAT = 1
START_SECONDS = 60.0
"""How long a group without a runner counts as starting."""
KEEP_SECONDS = 30 * 86400.0
"""How long a group that has ended is kept."""
LOOK_SECONDS = 0.1
"""How long the runner, and who waits for it, sleep before they look at the files again."""
TALKING = ("running", "waiting_permission")
"""The states of a task that can hear something."""
ENVIRONMENT = ("HOME", "TREADLE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "PYTHONPATH")
"""Variables that say where our files are: the runner must look in the same places."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the runner has to know. Keys and other settings are in its environment, never here."""

    format: int = FORMAT
    group: str
    parent_session: str
    created: float
    members: tuple[Assignment, ...]
    cwd: str
    model: str | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    rules: Rules = Rules()
    mode: Mode | None = None
    limits: Limits = Limits()
    add_dirs: tuple[str, ...] = ()
    confinement: Confinement = Confinement()
    trusted: bool = False

    def spec(self) -> SessionSpec:
        return SessionSpec(
            cwd=self.cwd,
            model=self.model,
            instructions=Instructions(system=self.system_prompt, append=self.append_system_prompt),
            tools=Toolset(offered=self.tools, denied=self.denied_tools),
            env={name: os.environ[name] for name in self.env if name in os.environ},
            rules=self.rules,
            mode=self.mode,
            limits=self.limits,
            add_dirs=self.add_dirs,
            confinement=self.confinement,
            trusted=self.trusted,
            start=Start(persist=False),
        )


PLAN = FileRecord(Plan, format=FORMAT, sync=False)


def root() -> str:
    return os.path.join(paths.state_dir(), "tasks")


# Starting...


class Starter(Protocol):
    """What is needed of the session that starts a group."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> SessionSpec: ...
    @property
    def info(self) -> AgentInfo: ...
    @property
    def model(self) -> str | None: ...
    @property
    def configuration(self) -> Configuration: ...
    def emit(self, event: Event) -> None: ...


async def start(session: Starter, members: Sequence[Assignment]) -> tuple[TaskGroup, list[Task]]:
    """Start a group that outlives us. Returns when it is at work; its first events are then also the session's."""
    if session.spec.guards.judge is not None or session.spec.guards.writing is not None:
        raise LocalError(
            "--detach does not work in this session: its agents end with this process", hint="leave out --detach"
        )
    await asyncio.to_thread(_forget_old)
    plan = _plan(session, members)
    directory = paths.private_dir(os.path.join(root(), plan.group))
    PLAN.save(os.path.join(directory, "plan.json"), plan)
    env = {**session.configuration.env, **{name: os.environ[name] for name in ENVIRONMENT if name in os.environ}}
    argv = [sys.executable, "-P", "-m", "treadle.agent.detached_runner", directory]
    log = os.path.join(directory, "runner.log")
    try:
        await asyncio.to_thread(detach, argv, env=env, cwd=plan.cwd, log=log, ready=True)
    except LocalError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise LocalError(f"the agents could not be started: {error.message}") from error
    group = Detached(directory)
    for event in group.events:
        session.emit(event)
    return group.group, group.tasks


def _plan(session: Starter, members: Sequence[Assignment]) -> Plan:
    spec = session.spec
    return Plan(
        group=f"group_{secrets.token_hex(4)}",
        parent_session=session.id,
        created=time.time(),
        members=tuple(msgspec.structs.replace(one, id=f"agent_{secrets.token_hex(4)}") for one in members),
        cwd=spec.cwd,
        model=session.model,
        system_prompt=spec.instructions.system,
        append_system_prompt=spec.instructions.append,
        tools=spec.tools.offered,
        denied_tools=spec.tools.denied,
        env=tuple(spec.env),
        rules=spec.rules,
        mode=session.info.mode,
        limits=spec.limits,
        add_dirs=spec.add_dirs,
        confinement=spec.confinement,
        trusted=spec.trusted,
    )


def _forget_old() -> None:
    for group in every():
        if not group.alive and time.time() - (group.group.completed_at or group.plan.created) > KEEP_SECONDS:
            shutil.rmtree(group.directory, ignore_errors=True)


# Finding...


def every() -> list[Detached]:
    """All groups that were not closed, oldest first."""
    found = []
    for name in os.listdir(root()) if os.path.isdir(root()) else []:
        try:
            found.append(Detached(os.path.join(root(), name)))
        except (NotFound, StorageError):
            continue
    return sorted(found, key=lambda group: group.plan.created)


def find(wanted: str) -> Detached | None:
    """The group of that id, or the one with a task of that id."""
    groups = every()
    named = (group for group in groups if wanted == group.group.id)
    return next(named, next((group for group in groups if wanted in group.group.tasks), None))


class Detached:
    """A group on disk, as it was when it was read."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.plan = _read_plan(directory)
        self.read()

    def read(self) -> None:
        alive = self.alive  # checked before the events are read: a runner that dies in between has written all of them
        lines, _ = files.read_lines(os.path.join(self.directory, "events.jsonl"))
        self.events: list[Event] = [event for line in lines if (event := _event(line)) is not None]
        tasks = {str(one.id): _queued(one, self.plan) for one in self.plan.members}
        self.group = TaskGroup(
            id=self.plan.group,
            tasks=tuple(tasks),
            status="running",
            wait_policy="detached",
            parent_session=self.plan.parent_session,
            created_at=self.plan.created,
        )
        closed = set()
        for event in self.events:
            if isinstance(event, TaskGroupChanged):
                self.group = event.group
            elif isinstance(event, TaskChanged) and event.task is not None:
                tasks[event.task_id] = event.task
            elif isinstance(event, TaskChanged) and event.change == "closed":
                closed.add(event.task_id)
        if not alive and self.group.status == "running":
            tasks = {name: _lost(task) for name, task in tasks.items()}
            self.group = msgspec.structs.replace(self.group, status="completed", results=tuple(tasks.values()))
        self.tasks = [task for name, task in tasks.items() if name not in closed]

    @property
    def alive(self) -> bool:
        lock = os.path.join(self.directory, "lock")
        return files.is_locked(lock) or (not os.path.exists(lock) and time.time() - self.plan.created < START_SECONDS)

    async def wait(self, emit: Callable[[Event], None]) -> TaskGroup:
        """Follow it to its end, and pass the snapshots of what has happened and happens to `emit`."""
        seen = 0
        while True:
            for event in self.events[seen:]:
                emit(event)
            seen = len(self.events)
            if self.group.status != "running":
                return self.group
            await self._look()

    async def _look(self) -> None:
        await asyncio.sleep(LOOK_SECONDS)
        self.read()

    async def stop(self, wanted: str, reason: str = "") -> None:
        """Stop a task, or the whole group, and wait until it has ended."""
        self._ask({"do": "stop", "id": wanted, "reason": reason})
        while self.alive and any(
            wanted in (task.id, self.group.id) and task.status not in FINISHED for task in self.tasks
        ):
            await self._look()

    def send(self, task: str, text: str) -> bool:
        """Say something to a task; False when it does not run, or not yet."""
        running = self.alive and any(one.id == task and one.status in TALKING for one in self.tasks)
        if running:
            self._ask({"do": "send", "id": task, "text": text})
        return running

    async def close(self, wanted: str) -> None:
        """Forget a task, or the whole group; what still runs is stopped first."""
        await self.stop(wanted)
        if wanted == self.group.id:
            await self.wait(lambda event: None)
        else:
            line = encode(TaskChanged(change="closed", task_id=wanted))
            files.append_line(os.path.join(self.directory, "events.jsonl"), line)
            self.read()
        if wanted == self.group.id or (not self.tasks and not self.alive):
            await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    def _ask(self, request: dict[str, Any]) -> None:
        files.append_line(os.path.join(self.directory, "requests.jsonl"), msgspec.json.encode(request))


def is_stored(event: Event) -> bool:
    """Whether it goes to disk: snapshots do; the pieces of what an agent says are in its log."""
    return isinstance(event, TaskGroupChanged) or (isinstance(event, TaskChanged) and event.task is not None)


def _read_plan(directory: str) -> Plan:
    path = os.path.join(directory, "plan.json")
    if (plan := PLAN.load(path)) is None:
        raise NotFound(f"no group in {directory}")
    return plan


def _event(line: bytes) -> Event | None:
    try:
        return decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _queued(one: Assignment, plan: Plan) -> Task:
    return Task(
        id=str(one.id),
        kind="agent",
        label=one.label,
        status="queued",
        agent_type=one.agent_type,
        model=one.model,
        parent_session=plan.parent_session,
        cwd=plan.cwd,
    )


def _lost(task: Task) -> Task:
    if task.status in FINISHED:
        return task
    error = ErrorInfo(code="peer_exited", message="the process that ran it was killed")
    return msgspec.structs.replace(task, status="failed", error=error, current_action=None)
