"""Threads, turns and items have every field that the schema requires."""

from treadle.events import ErrorInfo, FileChanged, Usage
from treadle.session import ModelMenu, OfferedModel, StoredSession
from treadle.wire.codex import outgoing


def test_errors_have_the_words_of_codex() -> None:
    for code, word in (
        ("context_overflow", "contextWindowExceeded"),
        ("rate_limited", "rateLimitExceeded"),
        ("x", "other"),
    ):
        assert outgoing.turn_error(ErrorInfo(code=code, message="m"))["codexErrorInfo"] == word


def test_input_tokens_include_those_of_a_cache() -> None:
    used = outgoing.tokens(Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3, output_tokens=4))
    assert (used["inputTokens"], used["cachedInputTokens"], used["totalTokens"]) == (6, 2, 10)


def test_the_model_in_use_is_the_default_also_when_it_is_not_listed() -> None:
    menu = ModelMenu(current="own", offered=(OfferedModel(id="a", name="A", description="d"),))
    own, other = outgoing.models(menu, ["default", "low"], images=False)
    assert (own["model"], own["isDefault"], own["displayName"]) == ("own", True, "own")
    assert (other["displayName"], other["isDefault"], other["inputModalities"]) == ("A", False, ["text"])
    assert own["defaultReasoningEffort"] == "default" and len(own["supportedReasoningEfforts"]) == 2
    assert [one["model"] for one in outgoing.models(ModelMenu(current=""), ["x"], images=True)] == []


def test_a_thread_that_is_only_listed_has_no_turns() -> None:
    kept = StoredSession(id="t", cwd="/w", title="hello", updated=5.5)
    shown = outgoing.thread(kept, status="notLoaded", model=None, version="1")
    assert (shown["preview"], shown["updatedAt"], shown["turns"], shown["status"]) == (
        "hello",
        5,
        [],
        {"type": "notLoaded"},
    )
    assert outgoing.turn("t", "completed")["itemsView"] == "notLoaded" and outgoing.step_status("pending") == "pending"


def test_a_message_has_text_and_reasoning_a_summary() -> None:
    assert outgoing.spoken("reasoning", "r", "hm") == {"type": "reasoning", "id": "r", "summary": ["hm"], "content": []}
    assert outgoing.spoken("reasoning", "r", "")["summary"] == []
    said = outgoing.spoken("agentMessage", "m", "hi")
    assert (said["type"], said["id"], said["text"], said["phase"]) == ("agentMessage", "m", "hi", None)
    assert "summary" not in said


def test_a_new_or_deleted_file_has_its_bare_content_and_a_changed_one_its_hunks() -> None:
    head = "diff --git a b\nindex 1\n--- a\n+++ b\n@@ -1 +1 @@\n"
    for change, kind, diff in (
        ("added", {"type": "add"}, "new\n"),
        ("deleted", {"type": "delete"}, "old\n"),
        ("modified", {"type": "update", "move_path": None}, "@@ -1 +1 @@\n-old\n+new\n"),
    ):
        event = FileChanged(path="/w/a", change=change, diff=head + "-old\n+new\n")  # type: ignore[arg-type]
        assert outgoing.change(event) == {"path": "/w/a", "kind": kind, "diff": diff}


def test_a_call_of_a_tool_has_its_result_or_its_error() -> None:
    call = outgoing.tool_call("c", "mcp__notes__add", {"a": 1})
    assert (call["id"], call["server"], call["tool"], call["arguments"]) == ("c", "notes", "add", {"a": 1})
    assert call["status"] == "inProgress" and call["result"] is None and call["error"] is None
    outgoing.settle(call, "done", True)
    assert call["result"]["content"] == [{"type": "text", "text": "done"}] and call["error"] is None
    failed = outgoing.tool_call("c", "mcp__notes__add", {})
    outgoing.settle(failed, "no", False)
    assert failed["error"] == {"message": "no"} and failed["result"] is None


def test_a_turn_has_its_items_its_status_and_its_error() -> None:
    one, error = outgoing.text_input("go"), ErrorInfo(code="auth_failed", message="no key")
    turn = outgoing.turn("t", "failed", items=[one], error=error)
    assert (turn["id"], turn["status"], turn["items"], turn["itemsView"]) == ("t", "failed", [one], "full")
    assert turn["error"]["codexErrorInfo"] == "unauthorized" and turn["error"]["message"] == "no key"
    assert outgoing.turn("t", "completed", items=[])["itemsView"] == "full" and outgoing.turn("t", "x")["error"] is None
    assert outgoing.step_status("in_progress") == "inProgress" and outgoing.turn("t", "x")["items"] == []


def test_a_command_is_shown_with_its_words_and_its_directory() -> None:
    shown = outgoing.command_item("c", "make", "/w")
    assert (shown["id"], shown["command"], shown["cwd"], shown["status"]) == ("c", "make", "/w", "inProgress")
    assert outgoing.file_change("c", [])["status"] == "inProgress"


def test_a_model_is_shown_with_what_it_takes_and_is_hidden_from_no_one() -> None:
    menu = ModelMenu(current="", offered=(OfferedModel(id="a", name="", description="d"),))
    [shown] = outgoing.models(menu, ["x"], images=True)
    assert (shown["displayName"], shown["description"], shown["inputModalities"]) == ("a", "d", ["text", "image"])
    assert (shown["hidden"], shown["supportsPersonality"], shown["isDefault"]) == (False, False, False)
    kept = StoredSession(id="t", cwd="/w", title="", updated=1.0)
    assert outgoing.thread(kept, status="idle", model="m", version="1")["ephemeral"] is False
    assert outgoing.thread(kept, status="idle", model="m", version="1", ephemeral=True)["ephemeral"] is True
    listed = ModelMenu(current="a", offered=menu.offered)
    assert [one["description"] for one in outgoing.models(listed, ["x"], images=False)] == ["d"]
