"""The lines that are written: of the conversation, of the system and of background work."""

import base64
from typing import Any
from uuid import UUID

import pytest

from tests.agent.pixels import png
from treadle import events
from treadle.events import ContextCompacted, ErrorInfo, Task, TaskChanged, Usage
from treadle.session import AgentInfo, CommandInfo
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.records import (
    LineIds,
    Record,
    compact_boundary,
    compacted,
    hook_response,
    hook_started,
    mode_changed,
    requesting,
    task_lines,
)

TASK = events.Task(
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
    usage=events.Usage(input_tokens=4, cache_read_tokens=3, output_tokens=2),
    error=events.ErrorInfo(code="rate_limited", message="slow down", retryable=True),
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

REPLY = wire.MessageHead(session_id="s1", id="m1", model="model")


def small(change: Any, **data: Any) -> events.TaskChanged:
    return events.TaskChanged(change=change, task_id="agent_1", data=data)


ASKED = events.Asked(
    request="q1", kind="permission", text="may?", name="bash", args={"command": "ls"}, parent="agent_1"
)


@pytest.mark.parametrize(
    ("event", "kind", "body"),
    [
        (small("text", delta="hi"), "text_delta", {"delta": "hi"}),
        (small("tool_start", tool="bash", first="ls"), "tool_start", {"toolName": "bash", "firstArg": "ls"}),
        (small("tool_start", tool="todo", first=None), "tool_start", {"toolName": "todo"}),
        (small("tool_end", tool="bash", ok=True), "tool_end", {"toolName": "bash", "success": True}),
        (
            small("tool_end", tool="bash", ok=False, error="no"),
            "tool_end",
            {"toolName": "bash", "success": False, "error": "no"},
        ),
        (small("closed"), "closed", {}),
        (ASKED, "permission_request", {"requestId": "q1", "toolName": "bash", "toolArgs": {"command": "ls"}}),
    ],
)
def test_what_a_background_task_does_is_one_event_in_the_wrapper(event: Any, kind: str, body: dict[str, Any]) -> None:
    told = {"type": f"background_task_{kind}", "taskId": "agent_1", **body}
    assert wire.wrapped(event) == {"type": "background_task_event", "background_task_event": told}


@pytest.mark.parametrize("change", ["created", "started", "updated", "completed", "failed", "cancelled"])
def test_what_becomes_of_a_background_task_is_told_with_all_that_is_known_of_it(change: Any) -> None:
    told = {"type": f"background_task_{change}", "task": SNAPSHOT}
    changed = events.TaskChanged(change=change, task_id="agent_1", task=TASK)
    assert wire.wrapped(changed) == {"type": "background_task_event", "background_task_event": told}


@pytest.mark.parametrize("change", ["created", "updated", "completed"])
def test_what_a_group_does_is_one_event_in_the_wrapper(change: Any) -> None:
    group = events.TaskGroup(
        id="group_1",
        tasks=("agent_1", "agent_2"),
        status="running",
        parent_session="s1",
        label="agent parallel",
        created_at=1.0,
        updated_at=2.0,
        results=(TASK,),
    )
    assert wire.wrapped(events.TaskGroupChanged(change=change, group=group)) == {
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
    task = events.Task(id="t", kind=kind, label="x", status="failed", error=events.ErrorInfo(code=code, message="m"))
    assert wire.task_snapshot(task)["error"]["category"] == category


def test_only_the_words_of_the_agent_itself_are_text_deltas() -> None:
    assert wire.wrapped(events.TextDelta(text="hi")) == wire.text_delta("hi")
    assert wire.wrapped(events.TextDelta(text="hi", parent="agent_1")) is None
    assert wire.wrapped(events.Asked(request="q1", kind="permission", text="may I?")) is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("stop", "end_turn"), ("tool_calls", "tool_use"), ("length", "max_tokens"), ("end_turn", "end_turn"), ("", None)],
)
def test_why_the_model_stopped_is_said_as_claude_code_does(ours: str, theirs: str | None) -> None:
    assert wire.stop_reason(ours) == theirs


def test_a_task_says_only_what_is_known_of_it() -> None:
    running = wire.task_snapshot(events.Task(id="t", kind="process", label="x", status="running", pid=7))
    assert "result" not in running and "error" not in running and "startedAt" not in running
    done = wire.task_snapshot(events.Task(id="t", kind="process", label="x", status="completed", exit_code=3))
    assert done["result"] == {"taskId": "t", "kind": "process", "output": "", "exitCode": 3}


INFO = AgentInfo(
    name="native",
    models=("m",),
    tools=("Bash",),
    mcp_servers={"files": "connected"},
    subagents=("Plan",),
)

COMMANDS = [
    CommandInfo(name="help", description="says what there is", arguments="[NAME]"),
    CommandInfo(name="mend", skill=True),
]


@pytest.mark.parametrize(
    ("mode", "theirs"),
    [("suggest", "default"), ("auto-edit", "acceptEdits"), ("plan", "plan"), ("full-auto", "bypassPermissions")],
)
def test_the_first_line_says_what_this_session_is(mode: Any, theirs: str) -> None:
    line = wire.init_line(INFO, COMMANDS, mode, session_id="s1", cwd="/work", version="1.2.3")
    assert line["type"] == "system" and line["subtype"] == "init" and line["session_id"] == "s1"
    assert line["permissionMode"] == theirs and line["apiKeySource"] == "none"
    assert line["tools"] == ["Bash"] and line["mcp_servers"] == [{"name": "files", "status": "connected"}]
    assert line["slash_commands"] == ["help", "mend"] and line["skills"] == ["mend"] and line["agents"] == ["Plan"]


def test_initialize_is_answered_with_what_can_be_chosen() -> None:
    told = wire.command_lists(INFO, COMMANDS)
    assert told["commands"][0] == {"name": "help", "description": "says what there is", "argumentHint": "[NAME]"}
    assert told["models"] == [{"value": "m", "displayName": "m", "description": ""}]
    assert told["agents"] == [{"name": "Plan"}]


@pytest.mark.parametrize(
    ("event", "who", "block"),
    [
        (events.Message(text="hi"), "assistant", {"type": "text", "text": "hi"}),
        (
            events.Message(text="hm", kind="thinking"),
            "assistant",
            {"type": "thinking", "thinking": "hm", "signature": ""},
        ),
        (
            events.ToolStarted(call="c", name="Bash", kind="execute", args={"command": "ls"}),
            "assistant",
            {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}},
        ),
        (
            events.ToolEnded(call="c", name="Bash", result="a", ok=True),
            "user",
            {"tool_use_id": "c", "type": "tool_result", "content": "a", "is_error": False},
        ),
        (
            events.ToolDenied(call="c", name="Bash", reason="no", by="person"),
            "user",
            {"tool_use_id": "c", "type": "tool_result", "content": "not allowed: no", "is_error": True},
        ),
    ],
    ids=lambda case: type(case).__name__,
)
def test_what_was_said_and_done_is_a_line_of_the_conversation(event: Any, who: str, block: dict[str, Any]) -> None:
    line = REPLY.line(event)
    assert line is not None and line["type"] == line["message"]["role"] == who
    assert line["message"]["content"] == [block] and line["session_id"] == "s1" and line["uuid"]


def test_other_events_are_no_line_of_the_conversation() -> None:
    assert REPLY.line(events.TextDelta(text="h")) is None


def test_a_denied_call_is_shown_as_asked_for_even_when_its_arguments_were_no_object() -> None:
    line = REPLY.use(events.ToolDenied(call="c", name="Bash", reason="no", by="rule", args="ls"))
    assert line["message"]["content"] == [{"type": "tool_use", "id": "c", "name": "Bash", "input": {}}]


def test_a_stream_event_names_its_session() -> None:
    line = wire.stream_event(wire.text_delta("x"), "s1")
    assert (line["type"], line["session_id"]) == ("stream_event", "s1") and line["event"]["delta"]["text"] == "x"


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("/help", ("help", "")),
        ("  /fix the  test\n", ("fix", "the  test\n")),
        ("/fix\tit", ("fix", "it")),
        ("/", None),
        ("/ help", None),
        ("say /help", None),
        ("", None),
    ],
)
def test_a_slash_command_is_a_name_and_the_rest_unchanged(prompt: str, found: tuple[str, str] | None) -> None:
    assert wire.command_of(prompt) == found


def test_what_an_event_leaves_out_is_said_as_empty() -> None:
    assert wire.task_event(small("text"))["delta"] == ""
    assert wire.task_event(small("tool_start")) == {
        "type": "background_task_tool_start",
        "taskId": "agent_1",
        "toolName": "",
    }
    ended = wire.task_event(small("tool_end"))
    assert (ended["toolName"], ended["success"]) == ("", True) and "error" not in ended
    asked = events.Asked(request="q1", kind="permission", text="may?", args="ls", parent="agent_1")
    told = wire.wrapped(asked)
    assert told is not None
    assert (told["background_task_event"]["toolName"], told["background_task_event"]["toolArgs"]) == ("", {})
    assert wire.wrapped(events.Asked(request="q1", kind="question", text="which?", parent="agent_1")) is None
    assert wire.usage() == dict.fromkeys(wire.usage(), 0)
    assert [*wire.usage(input_tokens=1, output_tokens=2, cache_read=3, cache_write=4).values()] == [1, 4, 3, 2]


def test_tools_go_by_their_names_and_a_key_by_where_it_came_from() -> None:
    info = AgentInfo(name="native", models=("m", "n"), tools=("bash", "own"), key_source="A_KEY")
    line = wire.init_line(info, [], None, session_id="s", cwd="/w", version="1")
    assert (line["tools"], line["model"], line["apiKeySource"]) == (["Bash", "own"], "m, n", "A_KEY")
    assert (line["cwd"], line["treadle_version"], line["permissionMode"]) == ("/w", "1", "bypassPermissions")
    assert wire.command_lists(info, [])["account"] == {"apiKeySource": "A_KEY"}
    assert wire.command_lists(INFO, [])["account"] == {"apiKeySource": "none"}
    use = REPLY.use(events.ToolStarted(call="c", name="bash", kind="execute", args={"command": "ls"}))
    assert use["message"]["content"][0]["name"] == "Bash"
    assert REPLY.use(events.ToolStarted(call="c", name="own", kind="other"))["message"]["content"][0]["name"] == "own"


@pytest.mark.parametrize(
    ("ok", "detail", "failed"),
    [
        (True, None, False),
        (False, None, True),
        (True, {"returnCode": 1}, True),
        (True, {"returnCode": 0}, False),
        (True, "returnCode", False),
    ],
)
def test_a_result_failed_if_its_tool_or_its_program_did(ok: bool, detail: Any, failed: bool) -> None:
    line = REPLY.line(events.ToolEnded(call="c", name="Bash", result="a", ok=ok), (), detail)
    assert line is not None and line["message"]["content"][0]["is_error"] is failed
    assert line.get("tool_use_result") == detail and ("tool_use_result" in line) == (detail is not None)


def test_images_follow_the_text_of_a_result() -> None:
    block = wire.image_block(png())
    assert block["source"]["type"] == "base64" and block["source"]["media_type"] == "image/png"
    assert base64.b64decode(block["source"]["data"]) == png()
    line = REPLY.line(events.ToolEnded(call="c", name="Read", result="a", ok=True), [block])
    assert line is not None and line["message"]["content"][0]["content"] == [{"type": "text", "text": "a"}, block]


def test_a_line_has_the_head_of_its_message_and_the_same_id_each_time_it_is_made() -> None:
    def lines() -> list[Any]:
        head = wire.MessageHead(session_id="s1", id="m1", model="model", parent="p", ids=LineIds())
        said: list[Any] = [events.Message(text="a", turn="t"), events.Message(text="a", kind="thinking", turn="t")]
        said += [events.ToolStarted(call="c", name="x", kind="other", turn="t")]
        return [head.line(each) for each in (*said, events.ToolEnded(call="c", name="x", result="", turn="t"))]

    first, again = lines(), lines()
    assert [line["uuid"] for line in first] == [line["uuid"] for line in again]
    assert len({line["uuid"] for line in first}) == 4
    message = first[0]["message"]
    assert (message["id"], message["model"], message["usage"]) == ("m1", "model", wire.usage())
    assert {line["parent_tool_use_id"] for line in first} == {"p"} and first[0]["timestamp"]
    alone = events.Message(text="a", turn="t")
    assert REPLY.line(alone)["uuid"] != REPLY.line(alone)["uuid"]  # type: ignore[index]


def test_a_denial_and_a_retry_are_lines_of_the_system() -> None:
    denied = events.ToolDenied(call="c", name="bash", reason="no", by="rule")
    told = REPLY.denied(denied)
    assert (told["subtype"], told["tool_name"], told["tool_use_id"]) == ("permission_denied", "Bash", "c")
    assert (told["message"], told["decision_reason_type"], told["session_id"]) == ("no", "rule", "s1")
    line = REPLY.line(denied)
    assert line is not None and line["tool_use_result"] == "Error: not allowed: no"
    for details, status in (({"status": 529}, 529), ("busy", None), (None, None)):
        error = events.ErrorInfo(code="rate_limited", message="slow", details=details)
        retry = REPLY.line(events.Retrying(attempt=2, delay_ms=100, error=error))
        assert retry is not None and (retry["subtype"], retry["error_status"]) == ("api_retry", status)
        assert (retry["attempt"], retry["retry_delay_ms"], retry["error"]) == (2, 100, "slow")


def test_what_happened_to_a_prompt_is_said_in_their_words() -> None:
    for tools, words in (
        (True, "[Request interrupted by user for tool use]"),
        (False, "[Request interrupted by user]"),
    ):
        line = wire.interrupted_line("s1", tools)
        assert line["message"]["content"] == [{"type": "text", "text": words}] and line["session_id"] == "s1"
    blocked = wire.blocked_line("a hook said no", "s1")
    assert blocked["prevent_continuation"] is True and blocked["level"] == "warning"
    assert (blocked["content"], blocked["session_id"]) == ("a hook said no", "s1")
    echoed = wire.replayed("hi", "u1", "s1")
    assert echoed["isReplay"] is True and echoed["message"] == {"role": "user", "content": "hi"}
    assert (echoed["uuid"], echoed["session_id"]) == ("u1", "s1")


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


def test_the_same_lines_in_the_same_order_have_the_same_uuids_in_another_process() -> None:
    lines = [("t1", "text", "ok"), ("t1", "call", "c1"), ("t1", "text", "ok"), ("t2", "text", "ok")]
    first, again = LineIds(), LineIds()
    ids = [first.next(*line) for line in lines]
    assert ids == [again.next(*line) for line in lines]
    assert len(set(ids)) == 4 and all(UUID(one) for one in ids), "equal lines of a turn differ too"


def test_a_line_that_says_something_else_has_another_uuid() -> None:
    assert LineIds().next("t1", "text", "a") != LineIds().next("t1", "text", "b")
