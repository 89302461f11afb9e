"""What Codex's items, usage and errors mean."""

from typing import Any

import pytest

from treadle.wire.codex import events


@pytest.mark.parametrize(
    ("told", "command"),
    [
        ("/bin/bash -lc 'touch a.txt'", "touch a.txt"),
        ("zsh -c ls", "ls"),
        ("ls -l", "ls -l"),
        ("/bin/bash -lc 'unclosed", "/bin/bash -lc 'unclosed"),
        (["git", "commit", "-m", "a b"], "git commit -m 'a b'"),
        (None, ""),
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
    ],
)
def test_an_error_is_known_by_its_info(info: Any, code: str, retryable: bool) -> None:
    found = events.error_info({"message": "no", "codexErrorInfo": info})
    assert (found.code, found.retryable, found.message) == (code, retryable, "no")


def test_an_error_that_is_nothing_still_says_so() -> None:
    assert events.error_info(None).message == "it gave no reason"


@pytest.mark.parametrize(
    ("told", "command"),
    [("bash -x ls", "bash -x ls"), ("fish -c ls", "fish -c ls"), ("bash -lc ls more", "bash -lc ls more"), (7, "")],
)
def test_what_is_no_shell_around_a_command_is_left_as_it_is(told: Any, command: str) -> None:
    assert events.plain_command(told) == command


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


@pytest.mark.parametrize(
    ("info", "code", "retryable"),
    [
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
def test_what_is_worth_another_try_is_said(info: Any, code: str, retryable: bool) -> None:
    found = events.error_info({"additionalDetails": "more", "message": "no", "codexErrorInfo": info})
    assert (found.code, found.retryable, found.message) == (code, retryable, "more")
    assert events.error_info("words").message == "words" and events.error_info({}).message == "it gave no reason"
