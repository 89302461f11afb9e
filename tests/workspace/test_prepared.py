"""What is written down of a workspace, so that it is found again."""

import os
from pathlib import Path

import msgspec
import pytest

from tests.workspace.repositories import make
from tests.workspace.sources import open_in
from treadle.errors import StorageError
from treadle.workspace.workspace import FORMAT, RECORD, Origin, Prepared, open_workspace, read_record

PLACE = Prepared(format=FORMAT, mode="staged", source="/s", root="/r", directory="/d", before="b")


def test_a_workspace_is_found_again_after_a_crash(tmp_path: Path, source: Path) -> None:
    first = open_in(tmp_path, source)
    Path(first.root, "new.txt").write_text("n")
    again = open_workspace(str(tmp_path / "run"))
    assert again is not None and [change.path for change in again.difference().changes] == ["new.txt"]
    assert open_workspace(str(tmp_path)) is None


def test_what_is_unfinished_is_none_and_what_is_newer_is_refused(tmp_path: Path) -> None:
    def record(data: bytes) -> Prepared | None:
        (tmp_path / RECORD).write_bytes(data)
        return read_record(str(tmp_path))

    assert read_record(str(tmp_path)) is None and record(b"") is None and record(b'{"mode": "staged"') is None
    assert record(msgspec.json.encode(PLACE)) == PLACE
    earlier = {"mode": "staged", "source": "/s", "root": "/r", "directory": "/d", "before": "b"}
    assert record(msgspec.json.encode(earlier)) == msgspec.structs.replace(PLACE, format=0)
    with pytest.raises(StorageError, match="workspace.json was written by a newer treadle") as refused:
        record(msgspec.json.encode(msgspec.structs.replace(PLACE, format=FORMAT + 1)))
    assert refused.value.hint == "upgrade treadle"


def test_the_repository_is_that_of_the_origin_or_else_of_the_source(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    (tmp_path / "one" / "deep").mkdir()
    source = os.path.realpath(tmp_path / "one")
    plain = msgspec.structs.replace(PLACE, source=source)
    user = plain.repository()
    assert user is not None and user.top == one.top and plain.at_top(user)
    deep = msgspec.structs.replace(PLACE, source=os.path.join(source, "deep"))
    user = deep.repository()
    assert user is not None and user.top == one.top and not deep.at_top(user)
    for inside, at_top in ((".", True), ("deep", False)):
        copied = msgspec.structs.replace(plain, origin=Origin(top=two.top, commit="c", inside=inside))
        user = copied.repository()
        assert user is not None and user.top == two.top and copied.at_top(user) is at_top
    assert msgspec.structs.replace(PLACE, source=str(tmp_path)).repository() is None
