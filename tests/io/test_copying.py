"""A copy is the same file, including holes, unless copying was stopped."""

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import Cancelled
from treadle.io import stopping
from treadle.io.copying import copy_file


def test_content_times_and_permissions_are_the_same(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(20 << 20))
    source.chmod(0o755)
    os.utime(source, ns=(1, 2_000_000_001))
    copy_file(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o755 and target.stat().st_mtime_ns == 2_000_000_001


@given(st.lists(st.tuples(st.integers(0, 3 << 20), st.binary(min_size=1, max_size=50)), max_size=4), st.integers(0, 99))
def test_holes_stay_holes(tmp_path_factory: pytest.TempPathFactory, written: list[tuple[int, bytes]], end: int) -> None:
    place = tmp_path_factory.mktemp("holes")
    source, target = place / "a", place / "b"
    with open(source, "wb") as file:
        for at, data in written:
            file.seek(at)
            file.write(data)
        file.truncate((3 << 20) + 50 + end)
    copy_file(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks <= source.stat().st_blocks


def test_what_is_told_to_stop_does_not_go_on(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"x")
    word = threading.Event()
    word.set()
    with stopping.heeding(word), pytest.raises(Cancelled):
        copy_file(str(source), str(tmp_path / "b"))


def test_a_link_is_not_followed_and_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "link").symlink_to("a")
    for source, target in (("link", "c"), ("a", "b")):
        with pytest.raises(OSError):
            copy_file(str(tmp_path / source), str(tmp_path / target))
    assert (tmp_path / "b").read_text() == "b" and not (tmp_path / "c").exists()
