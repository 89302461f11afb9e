"""The log of a subagent: what it holds, and reading it in parts."""

from pathlib import Path

import pytest

from treadle.agent.tasks import READ_CAP, WIDTH, TaskLog, read_log
from treadle.errors import StorageError
from treadle.events import Message, TextDelta, ToolDenied, ToolEnded, ToolStarted, TurnEnded


def test_it_reads_as_what_happened(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    log = TaskLog(path)
    for event in (
        TextDelta(text="Let me "),
        TextDelta(text="look."),
        Message(text="Let me look."),
        ToolStarted(call="1", name="bash", args={"command": "ls"}),
        TextDelta(text="of another agent", parent="agent_2"),
        ToolEnded(call="1", name="bash", result="a\nb\n"),
        ToolDenied(call="2", name="write_file", reason="plan mode"),
        TextDelta(text="Two files."),
        TurnEnded(outcome="completed"),
    ):
        log.note(event)
    log.close()
    assert Path(path).read_text() == (
        "Let me look.\n● bash ls\n  a b\n✗ write_file was not allowed: plan mode\nTwo files.\n"
    )


def test_a_disk_that_says_no_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        TaskLog(str(tmp_path / "missing" / "log"))
    TaskLog(None).note(TextDelta(text="nowhere"))


def test_parts_join_to_the_whole_also_between_the_bytes_of_a_character(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = "x" + "é" * READ_CAP + "end"
    path.write_text(whole)
    said, at, size = "", 0, 1
    while at < size:
        part, at, size = read_log(str(path), at)
        said += part
    assert said == whole


def test_reading_what_is_not_there_or_behind_the_end_is_empty(tmp_path: Path) -> None:
    assert read_log(None) == ("", 0, 0) and read_log(str(tmp_path / "none")) == ("", 0, 0)
    (tmp_path / "log").write_text("abc")
    assert read_log(str(tmp_path / "log"), 99) == ("", 3, 3)


def test_a_line_is_short_names_its_first_argument_and_says_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = TaskLog(str(path))
    log.note(ToolStarted(call="1", name="bash", args={"command": "x" * (WIDTH + 1), "cwd": "y"}))
    log.note(ToolStarted(call="2", name="todo", args={}))
    log.note(ToolStarted(call="3", name="todo", args=["a"]))
    log.note(ToolEnded(call="1", name="bash", result="z" * (WIDTH + 1), ok=False))
    log.close()
    log.close()
    log.line("after the end")
    assert path.read_text() == f"● bash {'x' * WIDTH}\n● todo\n● todo\n  failed: {'z' * WIDTH}\n"


def test_bytes_that_are_no_text_are_passed_once_and_not_read_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\xff" * READ_CAP)
    assert read_log(str(path)) == ("a\ufffd" * (READ_CAP // 2 - 1) + "a", READ_CAP - 1, 2 * READ_CAP)
    assert read_log(str(path), READ_CAP - 1)[1] == 2 * READ_CAP - 1


@pytest.mark.parametrize("size", [READ_CAP - 1, READ_CAP, READ_CAP + 1])
def test_a_part_is_as_long_as_its_cap_and_says_where_the_next_begins(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (size - 1) + b"\xff")
    text, at, whole = read_log(str(path))
    assert whole == size and at == min(size, READ_CAP if size > READ_CAP else READ_CAP - 1)
    assert text == "x" * (size - 1) + "\ufffd" if size < READ_CAP else text == "x" * at


def test_a_log_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="read"):
        read_log(str(tmp_path))
