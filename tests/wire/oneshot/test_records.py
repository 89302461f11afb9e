"""What is written of background work, kind by kind: the wrapper, the names and the places of everything."""

from typing import Any

import pytest

from treadle.events import Asked, ErrorInfo, Event, Task, TaskChanged, TaskGroup, TaskGroupChanged, TextDelta, Usage
from treadle.wire.oneshot import records as wire

TASK = Task(
    id="agent_1",
    kind="agent",
    label="count",
    status="failed",
    agent_type="Plan",
    parent_session="s1",
    depth=1,
    cwd="/work",
    started_at=1.0,
    updated_at=2.5,
    completed_at=2.5,
    prompt_preview="count it",
    isolation="worktree",
    worktree="/trees/x",
    branch="treadle/x",
    unread=True,
    output="half",
    usage=Usage(input_tokens=4, cache_read_tokens=3, output_tokens=2),
    error=ErrorInfo(code="rate_limited", message="slow down", retryable=True),
    log_path="/logs/agent_1.log",
)
SNAPSHOT = {
    "id": "agent_1",
    "kind": "agent",
    "label": "count",
    "agentType": "Plan",
    "status": "failed",
    "mode": "background",
    "parentSessionId": "s1",
    "depth": 1,
    "cwd": "/work",
    "startedAt": "1970-01-01T00:00:01.000Z",
    "updatedAt": "1970-01-01T00:00:02.500Z",
    "completedAt": "1970-01-01T00:00:02.500Z",
    "promptPreview": "count it",
    "isolation": "worktree",
    "worktreePath": "/trees/x",
    "branchName": "treadle/x",
    "unread": True,
    "logPath": "/logs/agent_1.log",
    "result": {
        "taskId": "agent_1",
        "kind": "agent",
        "output": "half",
        "usage": {"promptTokens": 7, "completionTokens": 2, "totalTokens": 9},
    },
    "error": {"category": "provider", "message": "slow down", "recoverable": True},
}


def small(change: Any, **data: Any) -> TaskChanged:
    return TaskChanged(change=change, task_id="agent_1", data=data)


@pytest.mark.parametrize(
    ("event", "body"),
    [
        (small("text", delta="hi"), {"type": "background_task_text_delta", "taskId": "agent_1", "delta": "hi"}),
        (
            small("tool_start", tool="bash", first="ls"),
            {"type": "background_task_tool_start", "taskId": "agent_1", "toolName": "bash", "firstArg": "ls"},
        ),
        (
            small("tool_start", tool="todo", first=None),
            {"type": "background_task_tool_start", "taskId": "agent_1", "toolName": "todo"},
        ),
        (
            small("tool_end", tool="bash", ok=True),
            {"type": "background_task_tool_end", "taskId": "agent_1", "toolName": "bash", "success": True},
        ),
        (
            small("tool_end", tool="bash", ok=False, error="no such file"),
            {
                "type": "background_task_tool_end",
                "taskId": "agent_1",
                "toolName": "bash",
                "success": False,
                "error": "no such file",
            },
        ),
        (small("closed"), {"type": "background_task_closed", "taskId": "agent_1"}),
        (
            Asked(request="q1", kind="permission", text="may?", name="bash", args={"command": "ls"}, parent="agent_1"),
            {
                "type": "background_task_permission_request",
                "taskId": "agent_1",
                "requestId": "q1",
                "toolName": "bash",
                "toolArgs": {"command": "ls"},
            },
        ),
        *(
            (
                TaskChanged(change=change, task_id="agent_1", task=TASK),  # type: ignore[arg-type]
                {"type": f"background_task_{change}", "task": SNAPSHOT},
            )
            for change in ("created", "started", "updated", "completed", "failed", "cancelled")
        ),
    ],
)
def test_what_a_background_task_does_is_one_event_in_the_wrapper(event: Event, body: dict[str, Any]) -> None:
    assert wire.wrapped(event) == {"type": "background_task_event", "background_task_event": body}  # type: ignore[arg-type]


@pytest.mark.parametrize("change", ["created", "updated", "completed"])
def test_what_a_group_does_is_one_event_in_the_wrapper(change: Any) -> None:
    group = TaskGroup(
        id="group_1",
        tasks=("agent_1", "agent_2"),
        status="running",
        parent_session="s1",
        label="agent parallel",
        created_at=1.0,
        updated_at=2.0,
        results=(TASK,),
    )
    assert wire.wrapped(TaskGroupChanged(change=change, group=group)) == {
        "type": "background_job_group_event",
        "background_job_group_event": {
            "type": f"background_job_group_{change}",
            "group": {
                "id": "group_1",
                "parentSessionId": "s1",
                "waitPolicy": "wait_all",
                "taskIds": ["agent_1", "agent_2"],
                "status": "running",
                "createdAt": "1970-01-01T00:00:01.000Z",
                "updatedAt": "1970-01-01T00:00:02.000Z",
                "label": "agent parallel",
                "results": [
                    {
                        "taskId": "agent_1",
                        "label": "count",
                        "status": "failed",
                        "summary": "half",
                        "outputRef": "/logs/agent_1.log",
                        "error": SNAPSHOT["error"],
                        "startedAt": "1970-01-01T00:00:01.000Z",
                        "completedAt": "1970-01-01T00:00:02.500Z",
                    }
                ],
            },
        },
    }


@pytest.mark.parametrize(
    ("code", "kind", "category"),
    [
        ("permission_denied", "agent", "permission"),
        ("timeout", "agent", "timeout"),
        ("busy", "agent", "capacity"),
        ("peer_exited", "agent", "crash"),
        ("config_error", "agent", "validation"),
        ("auth_failed", "agent", "provider"),
        ("internal_error", "agent", "runner"),
        ("internal_error", "process", "process"),
    ],
)
def test_an_error_of_a_task_has_a_category(code: str, kind: Any, category: str) -> None:
    task = Task(id="t", kind=kind, label="x", status="failed", error=ErrorInfo(code=code, message="m"))
    assert wire.task_snapshot(task)["error"]["category"] == category


def test_only_the_words_of_the_agent_itself_are_text_deltas() -> None:
    assert wire.wrapped(TextDelta(text="hi")) == wire.text_delta("hi")
    assert wire.wrapped(TextDelta(text="hi", parent="agent_1")) is None
    assert wire.wrapped(Asked(request="q1", kind="permission", text="may I?")) is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("stop", "end_turn"), ("tool_calls", "tool_use"), ("length", "max_tokens"), ("end_turn", "end_turn"), ("", None)],
)
def test_why_the_model_stopped_is_said_as_claude_code_does(ours: str, theirs: str | None) -> None:
    assert wire.stop_reason(ours) == theirs
