"""What of an order's events is found by a search, and which of them are errors."""

from typing import Any

import pytest

from treadle.fleet.find.index import is_error, texts_of


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ({"type": "message", "text": "hi"}, [("turn", "hi")]),
        ({"type": "message", "text": "hm", "kind": "thinking"}, []),
        ({"type": "message", "text": ""}, []),
        ({"type": "turn_started", "prompt": "do it"}, [("turn", "do it")]),
        ({"type": "turn_started"}, []),
        (
            {"type": "tool_started", "command": "ls", "paths": ["a", "b"]},
            [("command", "ls"), ("file", "a"), ("file", "b")],
        ),
        ({"type": "tool_started"}, []),
        ({"type": "command_run", "command": "ls"}, [("command", "ls")]),
        ({"type": "command_run", "command": "ls", "call": "c1"}, []),
        ({"type": "file_changed", "path": "a.py"}, [("file", "a.py")]),
        ({"type": "usage"}, []),
    ],
)
def test_words_commands_and_files_are_searched_each_once(event: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert list(texts_of(event)) == found


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "failed"}, True),
        ({"type": "tool_ended", "ok": False}, True),
        ({"type": "tool_ended"}, False),
        ({"type": "command_run", "exit_code": 1}, True),
        ({"type": "command_run", "exit_code": 0}, False),
        ({"type": "command_run"}, False),
        ({"type": "turn_ended", "outcome": "failed"}, True),
        ({"type": "turn_ended", "outcome": "completed"}, False),
        ({"type": "message", "outcome": "failed", "ok": False, "exit_code": 1}, False),
    ],
)
def test_an_error_is_what_failed_and_nothing_else(event: dict[str, Any], error: bool) -> None:
    assert is_error(event) is error
