"""Arguments as models write them: other names, other spellings, encoded twice; and what is said of wrong ones."""

import json
from typing import Any

import pytest

from treadle.agent.toolbox import builtin, decode, plain

TOOLS = builtin()


def read(tool: str, arguments: object) -> dict[str, Any]:
    return plain(decode(TOOLS.get(tool), arguments if isinstance(arguments, str) else json.dumps(arguments)))


@pytest.mark.parametrize(
    ("tool", "given", "name", "value"),
    [
        ("read_file", {"path": "a.py"}, "file_path", "a.py"),
        ("read_file", {"filePath": "a.py"}, "file_path", "a.py"),
        ("bash", {"cmd": "ls"}, "command", "ls"),
        ("bash", json.dumps(json.dumps({"command": "ls"})), "command", "ls"),
        ("bash", {"command": "ls", "timeout": 30}, "timeout", 30),
        ("bash", {"command": "ls", "timeout": 30_000}, "timeout", 30),
        ("bash", {"command": "ls", "timeout": "30"}, "timeout", 30),
        ("bash", {"command": "ls", "timeout": 3600}, "timeout", 3600),
        ("bash", {"command": "ls", "timeout": 3601}, "timeout", 3.601),
        ("bash", {"command": "ls", "timeout": 3_600_000}, "timeout", 3600),
        ("bash", {"command": "ls", "timeout": None, "unknown": 1}, "command", "ls"),
        ("edit_file", {"path": "a", "old_str": "x", "new_str": "y"}, "old_string", "x"),
        ("grep", {"query": "x", "-i": True}, "ignore_case", True),
    ],
)
def test_what_was_meant_is_understood(tool: str, given: object, name: str, value: object) -> None:
    assert read(tool, given)[name] == value
