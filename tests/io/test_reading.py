"""Whole files: their content, or one kind of error."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.descriptors import opened
from treadle.errors import StorageError
from treadle.io.files import (
    follow_lines,
    pieces,
    read,
    read_ends,
    read_if_there,
    sha256,
    state_number,
    state_numbers,
    text_if_there,
)


def test_a_file_is_read_whole_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\n" * 100_000)
    path = str(tmp_path / "f")
    assert read(path) == read_if_there(path) == b"\xff\n" * 100_000
    assert sha256(path) == hashlib.sha256(b"\xff\n" * 100_000).hexdigest()
    assert [len(piece) for piece in pieces(path, 150_000)] == [150_000, 50_000]


def test_one_that_is_not_there_is_an_error_unless_that_was_to_be_expected(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert read_if_there(path) is None
    with pytest.raises(StorageError, match=f"cannot read {path}"):
        read(path)
    with pytest.raises(StorageError, match="cannot read"):
        next(pieces(path, 10))
    with pytest.raises(FileNotFoundError):
        sha256(path)


def test_what_cannot_be_read_is_an_error_in_any_case(tmp_path: Path) -> None:
    for reading in (read, read_if_there):
        with pytest.raises(StorageError, match="cannot read"):
            reading(str(tmp_path))


def test_a_file_is_followed_to_its_last_line_also_when_it_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "log"
    whole = [b"", b"one\ntw", b"one\ntw", b"one\ntwo\n"]

    def look() -> bool:
        if whole:
            if data := whole.pop(0):
                with place.open("r+b" if place.exists() else "wb") as file:
                    file.write(data)
            return True
        place.unlink(missing_ok=True)
        return False

    assert list(follow_lines(str(place), look, 0.0)) == [b"one", b"two"]


def test_a_file_that_never_comes_has_no_lines(tmp_path: Path) -> None:
    assert list(follow_lines(str(tmp_path / "none"), lambda: False, 0.0)) == []


def test_the_number_of_a_file_changes_with_it_and_with_no_other(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    first = state_numbers(str(tmp_path), ".json")
    assert first.keys() == {"a.json", "b.json"}
    assert first["a.json"] == state_number(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text("{ }")
    os.utime(tmp_path / "a.json", (0, 0))
    second = state_numbers(str(tmp_path), ".json")
    assert second["a.json"] != first["a.json"] and second["b.json"] == first["b.json"]


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert state_numbers(str(tmp_path / "none"), ".json") == {}


def test_a_file_whose_old_time_was_put_back_is_another_state(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one")
    os.utime(path, ns=(10**18, 10**18))
    before = state_number(str(path))
    changed = os.stat(path).st_ctime_ns
    while os.stat(path).st_ctime_ns == changed:  # the clock of file systems is coarse
        path.write_text("two")
        os.utime(path, ns=(10**18, 10**18))
    assert state_number(str(path)) != before


def test_of_a_long_file_both_ends_are_read_and_no_byte_twice(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for size, expected in ((3, b"abc"), (4, b"abcd"), (5, b"abcd\ne"), (8, b"abcd\nefgh"), (9, b"abcd\nfghi")):
        path.write_bytes(b"abcdefghi"[:size])
        assert read_ends(str(path), 4) == expected
    with pytest.raises(StorageError, match=f"cannot read {tmp_path}/none"):
        read_ends(str(tmp_path / "none"), 4)


def test_text_is_read_whatever_its_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"caf\xc3\xa9 \xff")
    assert text_if_there(str(tmp_path / "f")) == "caf\u00e9 \ufffd" and text_if_there(str(tmp_path / "none")) is None


def test_a_file_that_comes_later_is_waited_for_and_a_last_half_line_is_none(tmp_path: Path) -> None:
    place, looks = tmp_path / "log", []

    def look() -> bool:
        looks.append(1)
        if len(looks) == 3:
            place.write_bytes(b"one\n\nhalf")
        return len(looks) < 6

    assert list(follow_lines(str(place), look, 0.0)) == [b"one", b""] and len(looks) >= 6


def test_a_number_is_that_of_a_state_and_looking_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    before = opened()
    assert state_numbers(str(tmp_path), ".json") == {"a.json": state_number(str(tmp_path / "a.json"))}
    assert opened() == before
    with pytest.raises(NotADirectoryError):
        state_numbers(str(tmp_path / "a.json"), ".json")
