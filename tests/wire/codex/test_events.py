"""What Codex says: items, usage, errors, the lines of exec and a thread's history."""

from typing import Any

import pytest

from treadle.errors import InvalidJson, LineTooLong, LocalProtocolError
from treadle.events import Message, ToolEnded, ToolStarted, TurnStarted
from treadle.session import Access, OfferedModel, StoredSession
from treadle.wire.codex import events
from treadle.wire.codex.connection import HOST_METHODS, SERVER_METHODS, Connection
from treadle.wire.codex.events import (
    CodexOutput,
    as_item,
    as_usage,
    listed_thread,
    offered_models,
    past,
    tool_args,
    tool_name,
)
from treadle.wire.common.rpc import RpcCall


@pytest.mark.parametrize(("role", "foreign"), [("host", SERVER_METHODS), ("server", HOST_METHODS)])
def test_neither_side_calls_what_belongs_to_the_other(role: str, foreign: frozenset[str]) -> None:
    for method in foreign:
        with pytest.raises(LocalProtocolError):
            Connection(role).send(RpcCall(id=1, method=method))


@pytest.mark.parametrize(
    ("told", "command"),
    [
        ("/bin/bash -lc 'touch a.txt'", "touch a.txt"),
        ("zsh -c ls", "ls"),
        ("ls -l", "ls -l"),
        ("/bin/bash -lc 'unclosed", "/bin/bash -lc 'unclosed"),
        (["git", "commit", "-m", "a b"], "git commit -m 'a b'"),
        *((other, other) for other in ("bash -x ls", "fish -c ls", "bash -lc ls more")),
        (None, ""),
        (7, ""),
    ],
)
def test_a_command_is_taken_out_of_its_shell(told: Any, command: str) -> None:
    assert events.plain_command(told) == command


PATCH = {
    "type": "fileChange",
    "id": "c",
    "changes": [
        {"path": "/w/new", "kind": {"type": "add"}, "diff": "a\nb\n"},
        {"path": "/w/old", "kind": {"type": "delete"}, "diff": "a\n"},
        {"path": "/w/mid", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-a\n+b\n"},
        "nonsense",
    ],
}


def test_a_patch_is_a_change_of_each_file() -> None:
    added, deleted, modified = events.file_changes(PATCH)
    assert (added.change, added.diff) == ("added", "--- /dev/null\n+++ /w/new\n@@ -0,0 +1,2 @@\n+a\n+b\n")
    assert (deleted.change, deleted.diff) == ("deleted", "--- /w/old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n")
    assert (modified.change, modified.diff) == ("modified", "@@ -1 +1 @@\n-a\n+b\n")
    assert events.paths(PATCH) == ("/w/new", "/w/old", "/w/mid")
    assert events.result_text(PATCH) == "add /w/new\ndelete /w/old\nupdate /w/mid"


def test_tools_have_names_and_arguments() -> None:
    assert events.tool_name(PATCH) == "apply_patch"
    call = {
        "type": "mcpToolCall",
        "server": "s",
        "tool": "t",
        "arguments": {"a": 1},
        "result": {"content": [{"text": "x"}]},
    }
    assert (events.tool_name(call), events.tool_args(call), events.result_text(call)) == ("mcp__s__t", {"a": 1}, "x")
    shell = {"type": "commandExecution", "command": "bash -c ls", "cwd": "/w", "aggregatedOutput": None}
    assert (events.tool_args(shell), events.result_text(shell)) == ({"command": "ls", "cwd": "/w"}, "")


def test_the_input_that_was_cached_is_counted_once() -> None:
    told = {"inputTokens": 180, "cachedInputTokens": 50, "cacheWriteInputTokens": 30, "outputTokens": 25}
    used = events.usage(told, "m")
    assert (used.input_tokens, used.cache_read_tokens, used.cache_write_tokens, used.output_tokens) == (100, 50, 30, 25)
    assert used.cost_usd is None
    assert events.usage({"inputTokens": "many"}, "m").prompt_tokens == 0
    assert events.usage({"inputTokens": True, "outputTokens": True}, "m").output_tokens == 0


@pytest.mark.parametrize(
    ("info", "code", "retryable"),
    [
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "auth_failed", False),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "rate_limited", True),
        ("internalServerError", "provider_error", True),
        ("contextWindowExceeded", "context_overflow", False),
        ("somethingNew", "provider_error", False),
        (None, "remote_error", False),
        ({"x": {"httpStatusCode": 403}}, "auth_failed", False),
        ({"x": {"httpStatusCode": 500}}, "provider_error", True),
        ({"x": {"httpStatusCode": 499}}, "provider_error", False),
        ({"x": "odd"}, "provider_error", False),
        ({}, "remote_error", False),
        ("serverOverloaded", "provider_error", True),
        ("usageLimitExceeded", "rate_limited", True),
        ("unauthorized", "auth_failed", False),
    ],
)
def test_an_error_is_known_by_its_info(info: Any, code: str, retryable: bool) -> None:
    told = {"message": "no", "codexErrorInfo": info}
    for more, message in (({}, "no"), ({"additionalDetails": "more"}, "more")):
        found = events.error_info({**told, **more})
        assert (found.code, found.retryable, found.message) == (code, retryable, message)


def test_an_error_that_is_nothing_still_says_so() -> None:
    assert events.error_info(None).message == events.error_info({}).message == "it gave no reason"
    assert events.error_info("words").message == "words"


def test_each_kind_of_item_has_its_arguments_and_its_result() -> None:
    search, image = {"type": "webSearch", "query": "q"}, {"type": "imageView", "path": "/w/a.png"}
    assert (events.tool_args(search), events.tool_args(image)) == ({"query": "q"}, {"path": "/w/a.png"})
    assert events.paths(image) == ("/w/a.png",) and events.paths({"type": "imageView", "path": 7}) == ()
    assert events.paths({"type": "webSearch", "path": "/no"}) == ()
    dynamic = {"type": "dynamicToolCall", "tool": "own", "contentItems": [{"text": "a"}, {"text": "b"}, "odd"]}
    assert (events.tool_name(dynamic), events.result_text(dynamic)) == ("own", "a\nb")
    assert events.tool_name({"type": "dynamicToolCall"}) == "dynamic"
    for result, text in (
        ("plain", "plain"),
        ({"message": "no"}, "no"),
        ({"odd": 1}, "{'odd': 1}"),
        (7, "7"),
        ({"content": []}, ""),
    ):
        assert events.result_text({"type": "mcpToolCall", "result": result}) == text
    assert events.result_text({"type": "mcpToolCall", "error": {"message": "no"}, "result": "yes"}) == "no"
    assert events.tool_args(PATCH)["changes"][0] == {"path": "/w/new", "diff": "a\nb\n"}
    whole = {
        "type": "fileChange",
        "id": "c",
        "changes": [{"path": "a", "kind": "add", "diff": "--- a\n"}, {"path": "b", "kind": "delete", "diff": "@@ x"}],
    }
    assert [(each.change, each.diff) for each in events.file_changes(whole)] == [
        ("added", "--- a\n"),
        ("deleted", "@@ x"),
    ]


def test_each_line_is_a_record_or_an_error_in_its_place() -> None:
    output = CodexOutput(cap=40)
    found = output.receive(b'{"type":"turn.started"}\n\n[]\nnonsense\n' + b"x" * 50 + b'\n{"type":')
    assert found[0] == {"type": "turn.started"}
    assert [type(each) for each in found[1:]] == [InvalidJson, InvalidJson, LineTooLong]
    assert output.receive(b'"turn.completed"}') == [] and output.end() == [{"type": "turn.completed"}]


def test_output_that_ends_inside_a_line_has_failed() -> None:
    output = CodexOutput()
    assert output.end() == []
    output.receive(b'{"type":')
    with pytest.raises(InvalidJson):
        output.end()


def test_the_prompt_goes_in_as_it_is() -> None:
    assert CodexOutput().send("Grüße\n{}") == "Grüße\n{}".encode()


def test_an_item_has_the_names_of_the_app_server() -> None:
    told = {
        "type": "command_execution",
        "command": "ls",
        "aggregated_output": "a",
        "exit_code": 0,
        "status": "completed",
    }
    assert as_item(told) == {
        "type": "commandExecution",
        "command": "ls",
        "aggregatedOutput": "a",
        "exitCode": 0,
        "status": "completed",
    }
    assert as_item({"type": "reasoning", "text": "hm"}) == {"type": "reasoning", "text": "hm", "summary": ["hm"]}
    assert as_item({"type": "dream"}) == {"type": "dream"} and as_item({}) == {"type": None}


def test_what_was_not_told_of_the_use_stays_unknown() -> None:
    used = as_usage({"input_tokens": 5, "output_tokens": 2, "later": 1})
    assert used["inputTokens"] == 5 and used["outputTokens"] == 2 and used["reasoningOutputTokens"] is None
    assert "later" not in used


def test_a_last_line_may_be_blank_and_an_item_of_a_known_kind_has_its_name() -> None:
    output = CodexOutput()
    assert output.receive(b"  \n") == [] and output.receive(b"  ") == [] and output.end() == []
    names = {
        "file_change": "fileChange",
        "agent_message": "agentMessage",
        "mcp_tool_call": "mcpToolCall",
        "web_search": "webSearch",
    }
    assert {theirs: as_item({"type": theirs})["type"] for theirs in names} == names
    assert as_item({"type": "reasoning"})["summary"] == [""] and "summary" not in as_item(
        {"type": "error", "text": "x"}
    )


def about(item: dict[str, Any]) -> Access:
    return Access(tool=tool_name(item), kind="execute", command="ls", args=tool_args(item))


def test_items_are_prompts_texts_and_calls() -> None:
    command = {
        "type": "commandExecution",
        "id": "c",
        "command": "bash -lc ls",
        "aggregatedOutput": "a\n",
        "exitCode": 1,
    }
    items: list[Any] = [
        {"type": "userMessage", "content": [{"type": "text", "text": "look"}, {"type": "image", "url": "x"}, 3]},
        {"type": "reasoning", "summary": ["hm", "so"]},
        {"type": "reasoning", "summary": []},
        {**command, "status": "completed"},
        {"type": "agentMessage", "text": "Done."},
        {"type": "contextCompaction", "id": "z"},
        "nothing",
    ]
    found = past([{"items": items}, {}, 7], about)
    assert [type(event) for event in found] == [TurnStarted, Message, ToolStarted, ToolEnded, Message]
    assert isinstance(found[0], TurnStarted) and found[0].prompt == "look"
    assert isinstance(found[1], Message) and (found[1].kind, found[1].text) == ("thinking", "hm\nso")
    assert isinstance(found[2], ToolStarted) and found[2].command == "ls"
    assert isinstance(found[3], ToolEnded) and (found[3].ok, found[3].result) == (False, "a\n")


def test_a_thread_without_turns_has_no_past() -> None:
    assert past(None, about) == [] and past([], about) == []


def test_a_thread_has_the_name_that_it_was_given_or_its_first_prompt() -> None:
    told = {"id": "t", "cwd": "/w", "preview": "hello", "name": None, "updatedAt": 5}
    assert listed_thread(told) == StoredSession(id="t", cwd="/w", title="hello", updated=5.0)
    assert listed_thread({**told, "name": "Mine", "updatedAt": None}).title == "Mine"


def test_hidden_models_and_what_is_no_model_are_left_out() -> None:
    told = [{"model": "m", "displayName": "M", "description": "d"}, {"model": "h", "hidden": True}, {}, 3]
    assert list(offered_models(told)) == [OfferedModel(id="m", name="M", description="d")]
    assert list(offered_models(None)) == []


def test_a_call_went_well_when_it_completed_without_an_exit_code() -> None:
    def went(**fields: Any) -> bool:
        ended = past([{"items": [{"type": "commandExecution", "id": "c", "command": "ls", **fields}]}], about)[-1]
        assert isinstance(ended, ToolEnded)
        return ended.ok

    assert went(status="completed", exitCode=0) and went(status="completed")
    assert not went(status="completed", exitCode=2) and not went(status="failed", exitCode=0)
    odd: list[Any] = [
        {"type": "commandExecution", "id": 7, "command": "ls"},
        {"type": "agentMessage", "text": 7},
        {"type": "userMessage", "content": 7},
    ]
    assert [type(event) for event in past([{"items": odd}, {"items": 7}], about)] == [TurnStarted]
    untitled = listed_thread({"id": "t", "updatedAt": "x"})
    assert (untitled.title, untitled.cwd, untitled.updated) == ("", "", 0.0)
    assert [one.name for one in offered_models([{"model": "m", "hidden": False}, {"model": 7}])] == [""]
