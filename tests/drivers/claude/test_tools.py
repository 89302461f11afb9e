"""What Claude Code's tools are about to touch."""

from typing import Any

import pytest

from treadle.drivers.claude.gate import about, claude_name


@pytest.mark.parametrize(
    ("name", "args", "kind", "paths", "command"),
    [
        ("Bash", {"command": "ls", "description": "d"}, "execute", (), "ls"),
        ("Write", {"file_path": "/w/a", "content": "x"}, "write", ("/w/a",), None),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, "write", ("n.ipynb",), None),
        ("Read", {"file_path": "a"}, "read", ("a",), None),
        ("Grep", {"pattern": "x", "path": "src"}, "read", ("src",), None),
        ("Task", {"prompt": "rm -rf /", "description": "d"}, "read", (), None),
        ("mcp__files__write_file", {"path": "/w/a"}, "write", ("/w/a",), None),
        ("Bash", "nonsense", "execute", (), None),
    ],
)
def test_a_tool_is_known_by_what_it_touches(
    name: str, args: Any, kind: str, paths: tuple[str, ...], command: str | None
) -> None:
    access = about(name, args)
    assert (access.kind, access.paths, access.command) == (kind, paths, command)


def test_our_names_for_tools_are_understood() -> None:
    assert [claude_name(name) for name in ("bash", "read_file", "Glob", "mcp__x__y")] == [
        "Bash",
        "Read",
        "Glob",
        "mcp__x__y",
    ]


def test_an_address_is_known_and_only_a_command_has_a_command() -> None:
    web = about("WebFetch", {"url": "https://a.example", "command": "no"})
    assert (web.kind, web.url, web.command) == ("network", "https://a.example", None)
    shell = about("Bash", {"command": "ls", "path": "/x"})
    assert (shell.paths, shell.command, shell.args) == ((), "ls", {"command": "ls", "path": "/x"})
    assert about("Bash", {"command": 7}).command is None and about("WebFetch", {"url": 7}).url is None
    both = about("Edit", {"file_path": "a", "notebook_path": 7, "path": "b"})
    assert both.paths == ("a", "b") and about("Task", {"prompt": "x"}).args == {"prompt": "x"}
