"""Whatever a run has left in a directory of ours, it can be removed."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.descriptors import opened
from treadle.errors import StorageError
from treadle.io.descriptors import remove_tree


def test_a_directory_goes_with_all_kinds_of_files_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    place = tmp_path / "place"
    (place / "a" / "b" / "c").mkdir(parents=True)
    (place / "a" / "b" / "c" / "x").touch()
    (place / "a" / "1.removed").mkdir()
    (place / "1.removed").touch()
    (place / "a" / "link").symlink_to(outside)
    os.mkfifo(place / "pipe")
    (place / "a" / "b").chmod(0o500)
    (place / "a").chmod(0)
    remove_tree(str(place))
    assert not place.exists() and (outside / "mine").exists()


def test_a_directory_deeper_than_any_path_goes(tmp_path: Path) -> None:
    place, here = tmp_path / "place", os.getcwd()
    place.mkdir()
    try:
        os.chdir(place)
        for _ in range(1100):
            os.mkdir("deep")
            os.chdir("deep")
        Path("x").touch()
    finally:
        os.chdir(here)
    remove_tree(str(place))
    assert not place.exists()


def test_a_link_or_a_file_goes_itself_and_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("link", "nothing"):
        remove_tree(str(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def test_what_cannot_be_removed_is_named() -> None:
    with pytest.raises(StorageError, match="cannot remove /proc/self/fd"):
        remove_tree("/proc/self/fd")


def test_only_directories_that_are_closed_to_us_are_opened_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    for name in ("open/inner", "closed/inner", "open/shut"):
        (place / name).mkdir(parents=True)
    (place / "open" / "shut").chmod(0o500)
    (place / "closed").chmod(0o070)
    changed: list[str] = []
    usual = os.chmod

    def noted(path: str, mode: int, **more: Any) -> None:
        changed.append(os.path.basename(path))
        assert mode == 0o700
        usual(path, mode, **more)

    before = opened()
    monkeypatch.setattr(os, "chmod", noted)
    remove_tree(str(place))
    assert sorted(changed) == ["closed", "place", "shut"] and not place.exists() and opened() == before


def test_a_directory_of_another_user_is_emptied_if_that_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "x").touch()

    def refused(*arguments: object, **more: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chmod", refused)
    remove_tree(str(place))
    assert not place.exists()
    (tmp_path / "file").touch()
    remove_tree(str(tmp_path / "file"))
    assert os.listdir(tmp_path) == []
