"""The paths of a checkout that decide what the person's next git command does."""

import os
import subprocess
from pathlib import Path

import pytest

from treadle.errors import WorkspaceError
from treadle.workspace.obeyed import obeyed
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def top(tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    place.mkdir()
    git(place, "init", "-q")
    return place


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)


def reasons(top: Path, *paths: str) -> list[bool]:
    user = UserRepository.at(str(top))
    assert user is not None
    reason = obeyed(user)
    return [bool(reason(path)) for path in paths]


def test_nothing_is_obeyed_but_git_itself_where_nothing_is_configured(top: Path) -> None:
    paths = ("a", "hooks/post-checkout", ".githooks/x", ".git/config", "sub/.git/hooks/x", ".GIT/x", "git")
    assert reasons(top, *paths) == [False, False, False, True, True, True, False]


def test_the_configured_directory_of_hooks_and_what_leads_to_it(top: Path) -> None:
    git(top, "config", "core.hooksPath", "tools/hooks")
    paths = ("tools/hooks/post-checkout", "tools/hooks/a/b", "tools/hooks", "tools", "Tools/Hooks/x")
    assert reasons(top, *paths) == [True] * 5
    assert reasons(top, "tools/other", "tools/hooks2", "hooks") == [False] * 3


def test_every_link_on_the_way_to_the_hooks_counts(top: Path) -> None:
    os.symlink("one", top / ".githooks")
    os.symlink("two", top / "one")
    (top / "two").mkdir()
    git(top, "config", "core.hooksPath", ".githooks")
    assert reasons(top, ".githooks", "one", "two/pre-commit", "three/x") == [True, True, True, False]


def test_a_checkout_that_is_its_own_directory_of_hooks(top: Path) -> None:
    git(top, "config", "core.hooksPath", str(top))
    assert reasons(top, "post-checkout") == [True]


def test_hooks_elsewhere_do_not_matter_here(top: Path, tmp_path: Path) -> None:
    git(top, "config", "core.hooksPath", str(tmp_path / "elsewhere"))
    assert reasons(top, "elsewhere/x", "a") == [False, False]


def test_included_files_even_those_that_are_not_there_yet(top: Path) -> None:
    (top / "more.cfg").write_text("[include]\n\tpath = deep/most.cfg\n")
    git(top, "config", "include.path", "../more.cfg")
    git(top, "config", "includeIf.onbranch:never.path", "../other.cfg")
    assert reasons(top, "more.cfg", "deep/most.cfg", "other.cfg", "a.cfg") == [True, True, True, False]


def test_programs_of_the_checkout_that_the_configuration_names(top: Path) -> None:
    git(top, "config", "filter.x.clean", "sh ./tools/clean.sh %f")
    git(top, "config", "alias.up", "!tools/up 'a b'")
    git(top, "config", "core.fsmonitor", ".git/watch")
    git(top, "config", "user.name", "some/one")
    assert reasons(top, "tools/clean.sh", "tools/up", "some/one", "tools/x") == [True, True, False, False]


def test_a_configuration_that_cannot_be_read_is_an_error_and_not_an_answer(top: Path) -> None:
    user = UserRepository.at(str(top))
    (top / ".git" / "config").write_text("[broken\n")
    assert user is not None
    with pytest.raises(WorkspaceError):
        obeyed(user)
