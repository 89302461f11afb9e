"""Whole files: what is in them, or one kind of error."""

import hashlib
from pathlib import Path

import pytest

from treadle.errors import StorageError
from treadle.io.reading import read, read_if_there, sha256


def test_a_file_is_read_whole_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\n" * 100_000)
    path = str(tmp_path / "f")
    assert read(path) == read_if_there(path) == b"\xff\n" * 100_000
    assert sha256(path) == hashlib.sha256(b"\xff\n" * 100_000).hexdigest()


def test_one_that_is_not_there_is_an_error_unless_that_was_to_be_expected(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert read_if_there(path) is None
    with pytest.raises(StorageError, match=f"cannot read {path}"):
        read(path)
    with pytest.raises(FileNotFoundError):
        sha256(path)


def test_what_cannot_be_read_is_an_error_in_any_case(tmp_path: Path) -> None:
    for reading in (read, read_if_there):
        with pytest.raises(StorageError, match="cannot read"):
            reading(str(tmp_path))
