"""A question in plain words, wherever it is shown."""

from pathlib import Path

import pytest

from treadle.agent.question import diff_of, headline, reason
from treadle.events import Asked


def permission(text: str = "bash (execute) requires approval in auto-edit mode", **fields: object) -> Asked:
    return Asked(request="r", kind="permission", text=text, **fields)  # type: ignore[arg-type]


def test_it_says_what_is_to_be_decided_and_not_which_mode_asks(tmp_path: Path) -> None:
    (tmp_path / "old.txt").touch()
    root = str(tmp_path)
    assert headline(permission(name="bash", command="make"), root) == "Run this command?"
    assert headline(permission(name="edit", tool_kind="write", paths=("old.txt",)), root) == "Change old.txt?"
    assert headline(permission(name="edit", tool_kind="write", paths=(f"{root}/new",)), root) == "Create new?"
    assert headline(permission(name="fetch", tool_kind="network"), root) == "Use fetch?"
    reaches = permission(name="network", tool_kind="network", text="a command wants to reach a.example")
    assert headline(reaches, root) == "a command wants to reach a.example" and reason(reaches, root) == ""
    assert headline(Asked(request="r", kind="question", text="Which colour?"), root) == "Which colour?"


def test_an_edit_is_shown_as_the_diff_it_would_make(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    for args in (edit, {"file_path": "a.txt", "edits": [edit]}, {"path": "a.txt", "content": "one\n2\n"}):
        diff = diff_of(Asked(request="r", kind="permission", text="?", args=args), str(tmp_path))
        assert "-two\n+2\n" in diff and "a.txt" in diff


@pytest.mark.parametrize("args", [None, {}, {"file_path": 3}, {"file_path": "a", "edits": ["x"]}, {"file_path": "a"}])
def test_what_does_not_tell_its_change_has_no_diff(tmp_path: Path, args: object) -> None:
    assert diff_of(Asked(request="r", kind="permission", text="?", args=args), str(tmp_path)) == ""
