"""The `system` lines beside the conversation."""

from treadle.events import ContextCompacted, Task, TaskChanged, Usage
from treadle.wire.oneshot.system_lines import compact_boundary, task_lines

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
