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
