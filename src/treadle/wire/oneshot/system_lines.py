"""`system` lines of Claude Code's stream beside the conversation: a compacted context, and background tasks."""

from collections.abc import Iterable

from treadle.events import ContextCompacted, Task, TaskChanged
from treadle.wire.oneshot.records import Record, new_uuid

_ENDS = {"completed": "completed", "failed": "failed", "cancelled": "stopped"}


def requesting(session_id: str) -> Record:
    """The model is about to be asked."""
    return _line("status", session_id, status="requesting")


def mode_changed(mode: str, session_id: str) -> Record:
    return _line("status", session_id, status=None, permissionMode=mode)


def compacted(session_id: str) -> Record:
    return _line("status", session_id, status=None, compact_result="success")


def hook_started(id: str, name: str, event: str, session_id: str) -> Record:
    return _line("hook_started", session_id, hook_id=id, hook_name=name, hook_event=event)


def hook_response(
    id: str, name: str, event: str, session_id: str, *, stdout: str, stderr: str, exit_code: int | None
) -> Record:
    outcome = "cancelled" if exit_code is None else "error" if exit_code else "success"
    ended = {"output": stdout + stderr, "stdout": stdout, "stderr": stderr, "outcome": outcome}
    code = {} if exit_code is None else {"exit_code": exit_code}
    about = {"hook_id": id, "hook_name": name, "hook_event": event}
    return _line("hook_response", session_id, **about, **ended, **code)


def compact_boundary(event: ContextCompacted, session_id: str) -> Record:
    """Before this line stands what the model no longer reads word by word."""
    counted = {"pre_tokens": event.tokens_before, "post_tokens": event.tokens_after}
    trigger = "manual" if event.asked else "auto"
    return _line("compact_boundary", session_id, compact_metadata={"trigger": trigger, **counted})


def task_lines(event: TaskChanged, session_id: str, running: Iterable[Task], tool_uses: int = 0) -> list[Record]:
    """The lines of a background task or a subagent that begins or has ended; none for every other change, and for a
    command that its caller waits for. `running`: the background tasks after this change."""
    task = event.task
    if task is None or task.mode != "background" and task.kind != "agent":
        return []
    aside = task.mode == "background"
    every = [_line("background_tasks_changed", session_id, tasks=[_listed(one) for one in running])] if aside else []
    about: Record = {"task_id": task.id, **_run(task), "tool_use_id": task.call}
    if event.change == "started":
        more = {"subagent_type": task.agent_type, "prompt": task.prompt_preview} if task.kind == "agent" else {}
        depth = {"spawn_depth": task.depth} if task.kind == "agent" else {}
        begun = {"description": task.label, "task_type": _kind(task), "is_backgrounded": aside, **depth, **more}
        return [_line("task_started", session_id, **about, **begun), *every]
    status = _ENDS.get(event.change)
    if status is None:
        return []
    patch: Record = {"status": "killed" if status == "stopped" else status}
    if task.completed_at is not None:
        patch["end_time"] = round(task.completed_at * 1000)
    summary = (task.output or (task.error.message if task.error else "") or f"{task.label}: {task.status}")[:2000]
    ended: Record = {"status": status, "output_file": task.log_path or "", "summary": summary}
    if task.usage is not None and task.started_at is not None:
        took = round(1000 * ((task.completed_at or task.updated_at) - task.started_at))
        tokens = task.usage.prompt_tokens + task.usage.output_tokens
        ended["usage"] = {"total_tokens": tokens, "tool_uses": tool_uses, "duration_ms": took}
    updated = _line("task_updated", session_id, task_id=task.id, **_run(task), patch=patch)
    return [updated, *every, _line("task_notification", session_id, **about, **ended)]


def _run(task: Task) -> Record:
    """The id of this run of the task; those of one task are in the order in which they began."""
    return {"run_id": f"{round(task.started_at * 1000):013d}"} if task.started_at is not None else {}


def _listed(task: Task) -> Record:
    return {"task_id": task.id, **_run(task), "task_type": _kind(task), "description": task.label}


def _kind(task: Task) -> str:
    return "local_agent" if task.kind == "agent" else "local_bash"


def _line(subtype: str, session_id: str, **fields: object) -> Record:
    return {"type": "system", "subtype": subtype, **fields, "session_id": session_id, "uuid": new_uuid()}
