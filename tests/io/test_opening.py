"""Files as they are: each function does one thing to one file and lets OSError through."""

import os
from pathlib import Path

import pytest

from treadle.io import files


def test_a_file_is_opened_by_its_path_or_by_a_descriptor_that_closes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some words")
    with files.opened(str(path)) as file:
        assert file.read() == b"some words"
    fd = os.open(path, os.O_RDONLY)
    with files.opened(fd) as file:
        assert file.read(4) == b"some"
    with pytest.raises(OSError):
        os.fstat(fd)
    with pytest.raises(FileNotFoundError):
        files.opened(str(tmp_path / "none"))


def test_what_is_created_is_empty_and_for_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"what was there before")
    with files.created(str(path)) as file:
        file.write(b"new")
        assert path.read_bytes() == b"new", "written at once"
    fresh = tmp_path / "fresh"
    os.close(files.create(str(fresh)))
    assert fresh.stat().st_mode & 0o777 == 0o600


def test_what_is_appended_comes_after_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for word in (b"one ", b"two "):
        with files.appending(str(path)) as file:
            file.write(word)
    assert path.read_bytes() == b"one two " and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_written_whole(tmp_path: Path, sync: bool) -> None:
    data = os.urandom(3 << 20)
    files.write(str(tmp_path / "file"), data, sync=sync)
    assert (tmp_path / "file").read_bytes() == data


def test_a_part_is_given_with_the_length_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert files.part(str(path), 3, 4) == (b"3456", 10)
    assert files.part(str(path), 8, 4) == (b"89", 10)
    assert files.part(str(path), 50, 4) == (b"", 10)


def test_a_file_is_changed_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one two")
    with files.changing(str(path)) as file:
        assert file.read() == b"one two"
        file.truncate(3)
    assert path.read_bytes() == b"one"
    with pytest.raises(FileNotFoundError):
        files.changing(str(tmp_path / "none"))


def test_a_renamed_file_takes_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "new").write_bytes(b"new")
    files.rename(str(tmp_path / "old"), str(tmp_path / "new"))
    assert (tmp_path / "new").read_bytes() == b"old" and not (tmp_path / "old").exists()


def test_a_new_file_takes_no_name_that_is_taken_and_appears_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    with files.create_new(path) as file:
        file.write(b"one")
    with files.create_new(str(tmp_path / "shared"), 0o644):
        pass
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in ("new", "shared")] == [0o600, 0o644]
    os.symlink("nowhere", tmp_path / "link")
    files.place_new(str(tmp_path / "placed"), b"words")
    for name in ("new", "link", "placed"):
        with pytest.raises(FileExistsError):
            files.create_new(str(tmp_path / name))
        with pytest.raises(FileExistsError):
            files.place_new(str(tmp_path / name), b"other")
    assert (tmp_path / "placed").read_bytes() == b"words" and (tmp_path / "placed").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "new", "placed", "shared"], "nothing is left beside"


def test_where_there_are_no_hard_links_a_file_is_placed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(old: str, new: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    files.place_new(str(tmp_path / "placed"), b"words")
    with pytest.raises(FileExistsError):
        files.place_new(str(tmp_path / "placed"), b"other")
    assert (tmp_path / "placed").read_bytes() == b"words" and os.listdir(tmp_path) == ["placed"]
    assert (tmp_path / "placed").stat().st_mode & 0o777 == 0o600


def test_what_is_written_is_on_the_disk_if_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    files.write(str(tmp_path / "f"), b"one")
    assert synced == []
    files.write(str(tmp_path / "f"), b"words", sync=True)
    assert synced == [5]
