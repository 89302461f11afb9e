"""Directories to make workspaces of."""

from pathlib import Path

import pytest

from tests.descriptors import nothing_left_open as nothing_left_open
from tests.machines import old_kernel as old_kernel
from tests.workspace.repositories import Repository, make
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make(tmp_path / "repo")


@pytest.fixture
def user(repository: Repository) -> UserRepository:
    found = UserRepository.at(repository.top)
    assert found is not None
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = Path(make(tmp_path / "source").top)
    (root / "src").mkdir()
    (root / "src" / "m.py").write_text("x = 1\n")
    (root / "notes.md").write_text("n\n")
    (root / "up").symlink_to("..")
    (root / "out").symlink_to("/etc/passwd")
    (root / "sly").symlink_to("src/back/../../etc")
    (root / "src" / "back").symlink_to("../..")
    (root / "good").symlink_to("src/m.py")
    (root / "whole").symlink_to(root / "src" / "m.py")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.make(str(tmp_path / "store"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    (place / "deep").mkdir()
    (place / "deep" / "b.txt").write_text("two\n")
    return place
