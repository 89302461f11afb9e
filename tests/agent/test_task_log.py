"""The log of a subagent: what it holds, and reading it in parts."""

from pathlib import Path

import pytest

from treadle.agent.tasks import READ_CAP, TaskLog, read_log
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
