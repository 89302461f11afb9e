"""Where the repository is, compared with what git itself says."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import git
from treadle.coordination import repository
from treadle.coordination.repository import find, locate, sealed_top
from treadle.errors import ConfigError


def common(where: Path) -> str:
    said = git(where, "rev-parse", "--git-common-dir")
    return os.path.realpath(where / said)


def test_a_plain_repository_is_its_own_main_worktree(project: Path) -> None:
    for where in (project, project / "src" / "a"):
        found = find(str(where))
        assert found is not None
        assert (found.top, found.main, found.common) == (str(project), str(project), common(where))


def test_linked_worktrees_share_the_main_one(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    found = find(str(tmp_path / "other" / "src"))
    assert found is not None
    assert (found.top, found.main, found.common) == (str(tmp_path / "other"), str(project), common(tmp_path / "other"))


def test_worktrees_of_a_bare_repository_meet_in_it(project: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(project), str(bare))
    git(bare, "worktree", "add", "-q", str(tmp_path / "one"), "-b", "one")
    git(bare, "worktree", "add", "-q", str(tmp_path / "two"), "-b", "two")
    mains = {found.main for name in ("one", "two", "bare.git") if (found := find(str(tmp_path / name)))}
    assert mains == {str(bare)}


def test_a_submodule_and_its_worktrees_meet_in_the_submodule(project: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    git(tmp_path, "clone", "-q", str(project), str(library))
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(project / "lib", "worktree", "add", "-q", str(tmp_path / "away"), "-b", "away")
    for where in (project / "lib", tmp_path / "away"):
        found = find(str(where))
        assert found is not None
        assert (found.top, found.main, found.common) == (str(where), str(project / "lib"), common(where))


def test_outside_of_any_repository_there_is_none(tmp_path: Path) -> None:
    assert find(str(tmp_path)) is None
    assert subprocess.run(["git", "-C", str(tmp_path), "rev-parse"], capture_output=True).returncode != 0


def test_a_worktree_whose_repository_was_moved_says_so(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    project.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="git worktree repair"):
        find(str(tmp_path / "other"))


def test_the_git_directory_of_an_agent_is_not_the_users(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    found = find()
    assert found is not None and found.top == str(project) and sealed_top() is None
    (project / ".git" / repository.MARK).write_text("")
    assert sealed_top(str(project / "src")) == str(project)
    with pytest.raises(ConfigError, match=r"which a sandbox hides \(run this outside"):
        find(str(project))
    assert locate(str(project)) == (str(project), str(project / ".git"))


def test_in_a_sandbox_the_relay_is_asked_where_the_git_directory_is_not_there_or_cannot_be_written(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = tmp_path / "relay"
    monkeypatch.setattr(repository, "RELAY", str(relay))
    plain = tmp_path / "plain"
    plain.mkdir()
    assert sealed_top(str(plain)) is None
    relay.write_text("")
    assert sealed_top(str(plain)) == str(plain)
    monkeypatch.chdir(plain)
    assert sealed_top() == str(plain) and sealed_top(str(project)) is None, "it can be written"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert sealed_top(str(project / "src")) == str(project)
    relay.unlink()
    assert sealed_top(str(project)) is None


def test_what_only_looks_like_a_repository_is_none(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / ".git").mkdir(parents=True)
    assert find(str(top)) is None
    (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert find(str(top)) is None
    (top / ".git" / "objects").mkdir()
    found = find(str(top / "none" / "deeper"))
    assert found is not None and (found.top, found.git, found.main) == (str(top), str(top / ".git"), str(top))
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / ".git").write_text("not a link")
    assert find(str(tmp_path / "file")) is None
    inside = find(str(top / ".git" / "objects"))
    assert inside is not None and inside.top == str(top / ".git")
