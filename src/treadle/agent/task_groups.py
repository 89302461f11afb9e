"""Tasks that were started together: their events, waiting for all of them, and their results in a few lines."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from treadle.agent.subagents import Assignment, find_type
from treadle.agent.tasks import Tasks
from treadle.errors import NotFound
from treadle.events import FINISHED, Event, Task, TaskGroup, TaskGroupChanged

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
