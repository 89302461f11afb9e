"""The diff that a person sees before a tool may write."""

from pathlib import Path
from typing import Any

import pytest

from treadle.doors.approvals import MOST, proposed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\none\n")
    return tmp_path / "a.txt"


@pytest.mark.parametrize(
    ("args", "new"),
    [
        ({"content": "new\n"}, "new\n"),
        ({"old_string": "two", "new_string": "2"}, "one\n2\none\n"),
        ({"old_string": "one", "new_string": "1"}, "1\ntwo\none\n"),
        ({"oldString": "one", "newString": "1", "replaceAll": True}, "1\ntwo\n1\n"),
        (
            {"edits": [{"old_string": "two", "new_string": "2"}, {"old_string": "2", "new_string": "zwei"}]},
            "one\nzwei\none\n",
        ),
    ],
)
def test_the_new_text_is_what_the_tool_would_write(file: Path, args: dict[str, Any], new: str) -> None:
    [diff] = proposed({"file_path": "a.txt", **args}, str(file.parent))
    assert diff == {"type": "diff", "path": str(file), "oldText": "one\ntwo\none\n", "newText": new}


def test_a_new_file_has_no_old_text(tmp_path: Path) -> None:
    for args in ({"path": "b", "content": "x"}, {"path": "b", "old_string": "", "new_string": "x"}):
        assert proposed(args, str(tmp_path)) == [{"type": "diff", "path": str(tmp_path / "b"), "newText": "x"}]


@pytest.mark.parametrize(
    "args",
    [
        None,
        {"content": "x"},
        {"file_path": "a.txt"},
        {"file_path": "a.txt", "content": "one\ntwo\none\n"},
        {"file_path": "a.txt", "old_string": "three", "new_string": "3"},
        {"file_path": "a.txt", "old_string": "", "new_string": "x"},
        {"file_path": "a.txt", "old_string": "one"},
        {"file_path": "a.txt", "edits": ["odd"]},
        {"file_path": "a.txt", "content": "x" * (MOST + 1)},
        {"file_path": ".", "content": "x"},
        {"file_path": "big", "content": "x"},
        {"file_path": "binary", "content": "x"},
    ],
)
def test_where_it_cannot_be_told_nothing_is_shown(file: Path, args: Any) -> None:
    (file.parent / "big").write_bytes(b"x" * (MOST + 1))
    (file.parent / "binary").write_bytes(b"a\0b")
    assert proposed(args, str(file.parent)) == []


def test_the_largest_file_and_text_that_are_shown(file: Path) -> None:
    whole = file.parent / "large"
    whole.write_bytes(b"x" * MOST)
    [diff] = proposed({"file_path": "large", "content": "y" * MOST}, str(file.parent))
    assert (diff["oldText"], diff["newText"]) == ("x" * MOST, "y" * MOST)
    [one] = proposed(
        {"file_path": "a.txt", "old_string": "one", "new_string": "1", "replace_all": True}, str(file.parent)
    )
    assert one["newText"] == "1\ntwo\n1\n"
    empty = file.parent / "empty"
    empty.write_text("")
    [filled] = proposed({"file_path": "empty", "old_string": "", "new_string": "x"}, str(file.parent))
    assert (filled["oldText"], filled["newText"]) == ("", "x")
    assert (
        proposed({"file_path": "a.txt", "edits": [{"old_string": "no", "new_string": ""}, {}]}, str(file.parent)) == []
    )
    [cut] = proposed({"file_path": "a.txt", "old_string": "two\n", "new_string": ""}, str(file.parent))
    assert cut["newText"] == "one\none\n"
    (file.parent / "odd").write_bytes(b"\xff")
    assert proposed({"file_path": "odd", "content": "x"}, str(file.parent))[0]["oldText"] == "\ufffd"
