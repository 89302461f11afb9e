"""The log of a subagent: what it holds, and reading it in parts."""

from pathlib import Path

import pytest

from treadle.agent.tasks import READ_CAP, TaskLog, read_log
from treadle.errors import StorageError
from treadle.events import TextDelta


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
