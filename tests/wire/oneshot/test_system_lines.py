"""The `system` lines beside the conversation."""

from typing import Any
from uuid import UUID

import pytest

from treadle.events import ContextCompacted, ErrorInfo, Task, TaskChanged, Usage
from treadle.wire.oneshot.records import (
    Record,
    compact_boundary,
    compacted,
    hook_response,
    hook_started,
    mode_changed,
    requesting,
    task_lines,
)

RUNNING = Task(id="t1", kind="process", label="npm start", status="running", call="c1", started_at=1.0)
ENDED = Task(id="t1", kind="process", label="npm start", status="completed", started_at=1.0, completed_at=3.0)


def test_a_compacted_context_has_its_boundary() -> None:
    line = compact_boundary(ContextCompacted(tokens_before=90, tokens_after=9, asked=True), "s")
    assert (line["subtype"], line["session_id"]) == ("compact_boundary", "s")
    assert line["compact_metadata"] == {"trigger": "manual", "pre_tokens": 90, "post_tokens": 9}


def test_a_task_in_the_background_begins_and_ends_with_the_list_of_those_that_run() -> None:
    began = task_lines(TaskChanged(task_id="t1", change="started", task=RUNNING), "s", [RUNNING])
    assert [line["subtype"] for line in began] == ["task_started", "background_tasks_changed"]
    assert (began[0]["task_type"], began[0]["tool_use_id"]) == ("local_bash", "c1")
    listed = {"task_id": "t1", "run_id": "0000000001000", "task_type": "local_bash", "description": "npm start"}
    assert began[1]["tasks"] == [listed] and began[0]["run_id"] == listed["run_id"]
    ended = task_lines(TaskChanged(task_id="t1", change="completed", task=ENDED), "s", [])
    assert [line["subtype"] for line in ended] == ["task_updated", "background_tasks_changed", "task_notification"]
    assert (ended[0]["patch"], ended[2]["status"]) == ({"status": "completed", "end_time": 3000}, "completed")


def test_a_subagent_tells_its_kind_and_what_it_used() -> None:
    agent = Task(id="t2", kind="agent", label="look", status="running", agent_type="owl", prompt_preview="look for it")
    [began, _] = task_lines(TaskChanged(task_id="t2", change="started", task=agent), "s", [agent])
    assert (began["task_type"], began["subagent_type"], began["prompt"]) == ("local_agent", "owl", "look for it")
    used = Usage(model="m", input_tokens=5, output_tokens=2)
    done = Task(id="t2", kind="agent", label="look", status="failed", usage=used, started_at=1.0, completed_at=1.5)
    ended = task_lines(TaskChanged(task_id="t2", change="failed", task=done), "s", [], tool_uses=4)[-1]
    assert (ended["status"], ended["usage"]) == ("failed", {"total_tokens": 7, "tool_uses": 4, "duration_ms": 500})


def test_a_subagent_that_its_caller_waits_for_is_not_in_the_background_and_a_command_has_no_lines() -> None:
    waited = Task(id="t1", kind="agent", label="x", status="running", mode="foreground", depth=1, started_at=1.0)
    [began] = task_lines(TaskChanged(task_id="t1", change="started", task=waited), "s", [])
    assert (began["is_backgrounded"], began["spawn_depth"]) == (False, 1)
    ended = task_lines(TaskChanged(task_id="t1", change="completed", task=waited), "s", [])
    assert [line["subtype"] for line in ended] == ["task_updated", "task_notification"]
    command = Task(id="t2", kind="process", label="x", status="running", mode="foreground")
    assert task_lines(TaskChanged(task_id="t2", change="started", task=command), "s", []) == []
    assert task_lines(TaskChanged(task_id="t1", change="updated"), "s", []) == []


def lines(change: Any, task: Task, running: tuple[Task, ...] = (), **more: int) -> list[Record]:
    return task_lines(TaskChanged(task_id=task.id, change=change, task=task), "s", running, **more)


def test_the_lines_about_the_model_the_mode_and_the_context_have_their_status() -> None:
    for line, status, more in (
        (requesting("s"), "requesting", {}),
        (mode_changed("plan", "s"), None, {"permissionMode": "plan"}),
        (compacted("s"), None, {"compact_result": "success"}),
    ):
        assert UUID(line.pop("uuid"))
        assert line == {"type": "system", "subtype": "status", "session_id": "s", "status": status, **more}
    full = compact_boundary(ContextCompacted(tokens_before=2, tokens_after=1), "s")
    assert full["compact_metadata"]["trigger"] == "auto"


@pytest.mark.parametrize(("code", "outcome"), [(0, "success"), (2, "error"), (None, "cancelled")])
def test_a_hook_begins_and_ends_with_its_output_and_its_exit_code_if_it_has_one(code: int | None, outcome: str) -> None:
    about = {"hook_id": "h1", "hook_name": "check", "hook_event": "PreToolUse"}
    began = hook_started("h1", "check", "PreToolUse", "s")
    assert began.items() >= {**about, "subtype": "hook_started", "session_id": "s"}.items()
    ended = hook_response("h1", "check", "PreToolUse", "s", stdout="a", stderr="b", exit_code=code)
    said = {"output": "ab", "stdout": "a", "stderr": "b", "outcome": outcome, "subtype": "hook_response"}
    assert ended.items() >= {**about, **said}.items()
    assert ended.get("exit_code", "none") == ("none" if code is None else code)


def test_a_command_in_the_background_has_no_kind_of_agent_and_an_agent_has_its_depth() -> None:
    began = lines("started", RUNNING)[0]
    assert began["is_backgrounded"] is True and began["description"] == "npm start" and began["task_id"] == "t1"
    assert not began.keys() & {"subagent_type", "prompt", "spawn_depth"}
    agent = Task(id="t2", kind="agent", label="look", status="running", depth=2)
    assert lines("started", agent)[0]["spawn_depth"] == 2 and "run_id" not in lines("started", agent)[0]
    assert lines("updated", RUNNING) == []


def test_what_is_said_of_an_end_is_the_output_else_the_error_else_the_status() -> None:
    error = ErrorInfo(code="x", message="it broke")
    for more, summary in (
        ({"output": "done", "error": error}, "done"),
        ({"error": error}, "it broke"),
        ({}, "a: failed"),
    ):
        task = Task(id="t", kind="process", label="a", status="failed", log_path="/l", **more)
        updated, _, told = lines("failed", task)
        assert (told["summary"], told["output_file"], told["status"]) == (summary, "/l", "failed")
        assert updated["patch"] == {"status": "failed"} and "usage" not in told and updated["task_id"] == "t"
    long = Task(id="t", kind="process", label="a", status="completed", output="x" * 3000)
    assert len(lines("completed", long)[-1]["summary"]) == 2000 and lines("completed", long)[-1]["output_file"] == ""
    stopped = lines("cancelled", ENDED)
    assert (stopped[0]["patch"]["status"], stopped[2]["status"]) == ("killed", "stopped")


def test_how_long_a_task_took_is_counted_to_its_end_or_to_when_it_was_last_seen() -> None:
    used = Usage(input_tokens=1, output_tokens=1)
    task = Task(id="t", kind="agent", label="a", status="completed", usage=used, started_at=1.0, updated_at=4.0)
    assert lines("completed", task)[-1]["usage"] == {"total_tokens": 2, "tool_uses": 0, "duration_ms": 3000}
    unbegun = Task(id="t", kind="agent", label="a", status="cancelled", usage=used)
    assert "usage" not in lines("cancelled", unbegun)[-1]
