"""A directory of its own for a terminal's program: where one cannot be had, nothing is left behind."""

import json
import os
from pathlib import Path

import pytest

from tests.workspace.repositories import make as make_repository
from treadle.errors import ConfigError, NotFound
from treadle.io import files
from treadle.terminal import lock, worktree
from treadle.terminal.places import Place
from treadle.terminal.settings import TerminalSettings


def settings(workdir: Path, name: str = "", directory: str = "") -> TerminalSettings:
    made = TerminalSettings()
    made.workdir, made.id, made.directory = str(workdir), name, directory
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return Path(make_repository(tmp_path / "r").top)


def test_a_program_gets_a_private_copy_of_the_commit_under_a_harmless_name(repository: Path, state_home: Path) -> None:
    given = settings(repository)
    made = worktree.make("../a b/", given)
    assert given.workdir == made.root and (Path(made.root) / "a.txt").read_text() == "one\n"
    (name,) = os.listdir(lock.base())
    assert name.startswith("a-b-") and os.stat(os.path.join(lock.base(), name)).st_mode & 0o077 == 0


def test_outside_of_a_repository_there_is_none_and_nothing_is_made(tmp_path: Path, state_home: Path) -> None:
    with pytest.raises(ConfigError, match="not in a git repository"):
        worktree.make("x", settings(tmp_path))
    assert not os.path.exists(lock.base())


def test_what_fails_on_the_way_leaves_no_directory(repository: Path, state_home: Path) -> None:
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    with pytest.raises(Exception):  # noqa: B017 (whatever git says)
        worktree.make("x", settings(repository))
    assert os.listdir(lock.base()) == []


def test_the_work_of_an_ended_terminal_is_found_and_its_id_is_kept(
    repository: Path, tmp_path: Path, state_home: Path
) -> None:
    given = settings(repository, "x", str(tmp_path))
    made = worktree.make("x", given)
    place = Place(str(tmp_path), "x")
    Path(place.exit).write_text(json.dumps({"format": 1, "id": "x", "code": 0, "workdir": made.root}))
    assert worktree.of(place).root == made.root and worktree.holds_work(place) and not worktree.runs(place)
    with pytest.raises(ConfigError, match="has left work"):
        worktree.check_free(given)
    worktree.check_free(settings(repository, "y", str(tmp_path)))
    worktree.check_free(settings(repository, "", str(tmp_path)))
    with files.locked(place.pid):
        worktree.check_free(given)  # it runs, which is refused with who has it when another is started


def test_one_without_a_worktree_and_one_whose_worktree_is_gone_say_so(tmp_path: Path, state_home: Path) -> None:
    place = Place(str(tmp_path), "x")
    with pytest.raises(NotFound, match="no worktree of its own"):
        worktree.of(place)
    Path(place.exit).write_text(
        json.dumps({"format": 1, "id": "x", "workdir": f"{os.path.realpath(lock.base())}/gone/r"})
    )
    with pytest.raises(NotFound, match="was removed"):
        worktree.of(place)
    assert not worktree.holds_work(place)
