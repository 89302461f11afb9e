"""The private git directory: what a git in it sees, and that the user's repository does not notice."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.checkouts import checkout, git
from treadle.errors import WorkspaceError
from treadle.workspace.private_git import MARK, _lines, make, named_commits, write_refs
from treadle.workspace.user_repository import UserRepository


def user(top: Path) -> UserRepository:
    found = UserRepository.at(str(top))
    assert found is not None
    return found


def state(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def inside(private: Path, top: Path, *words: str) -> str:
    return git(top, f"--git-dir={private}", f"--work-tree={top}", *words)


def test_a_git_in_it_sees_what_the_user_sees_and_its_commits_stay_there(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    git(top, "tag", "-am", "first", "v1")
    git(top, "branch", "other")
    git(top, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main")
    (top / "file.txt").write_text("two\n")
    (top / "new.txt").write_text("x")
    git(top, "add", "new.txt")
    seen = git(top, "status", "--porcelain"), git(top, "for-each-ref")
    before = state(top / ".git")
    base = make(str(tmp_path / "p"), user(top))
    assert (inside(tmp_path / "p", top, "status", "--porcelain"), inside(tmp_path / "p", top, "for-each-ref")) == seen
    assert inside(tmp_path / "p", top, "describe", "v1") == "v1" and base.head == "refs/heads/main"
    inside(tmp_path / "p", top, "commit", "-qam", "two")
    inside(tmp_path / "p", top, "fsck", "--strict")
    assert sorted(os.listdir(tmp_path / "p" / "refs" / "heads")) == ["main"], "only what it moved is a file"
    assert inside(tmp_path / "p", top, "log", "--format=%s") == "two\none"
    assert state(top / ".git") == before and git(top, "log", "--format=%s") == "one"


def test_a_commit_without_a_branch_can_be_the_beginning(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    commit = git(top, "rev-parse", "HEAD")
    (tmp_path / "f").mkdir()
    assert make(str(tmp_path / "f" / ".git"), user(top), head=commit).head == commit
    assert git(tmp_path / "f", "rev-parse", "HEAD") == commit
    with pytest.raises(WorkspaceError, match="the index for 111111111111 cannot be created: .*1111"):
        make(str(tmp_path / "none"), user(top), head="1" * 40)
    with pytest.raises(WorkspaceError, match=f"HEAD of {top} is neither a branch nor a commit: '-x'"):
        make(str(tmp_path / "bad"), user(top), head="-x")


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
@pytest.mark.parametrize(("programs", "committed"), [(True, "CLEAN"), (False, "large")])
def test_filters_for_all_repositories_run_where_filters_are_copied_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, programs: bool, committed: str
) -> None:
    top = checkout(tmp_path / "w")
    settings = tmp_path / "settings"
    settings.write_text('[filter "own"]\n\tclean = echo CLEAN\n\tsmudge = false\n\trequired = true\n')
    monkeypatch.delenv("GIT_CONFIG_NOSYSTEM")
    monkeypatch.setenv(variable, str(settings))
    make(str(tmp_path / "p"), user(top), programs=programs)
    if programs:
        monkeypatch.delenv(variable)  # as where the sandbox hides the file
    (top / ".gitattributes").write_text("*.bin filter=own\n")
    (top / "new.bin").write_text("large")
    inside(tmp_path / "p", top, "add", "-A")
    assert inside(tmp_path / "p", top, "show", ":new.bin") == committed


@pytest.mark.parametrize(("hooks", "said"), [(None, "/dev/null"), ("", "")])
def test_hooks_run_only_where_that_is_said_and_filters_do_not(tmp_path: Path, hooks: str | None, said: str) -> None:
    top = checkout(tmp_path / "w")
    git(top, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    make(str(tmp_path / "p"), user(top), hooks=hooks)
    assert inside(tmp_path / "p", top, "config", "--default", "", "core.hooksPath") == said
    assert inside(tmp_path / "p", top, "config", "--default", "none", "filter.lfs.clean") == "none"
    assert not (tmp_path / "p" / MARK).exists()


def test_refs_that_name_others_are_files_and_bad_ones_are_left_out(tmp_path: Path) -> None:
    names = ("refs/remotes/o/HEAD", "refs/remotes/o/other", "refs/../evil", "refs/remotes/o/bad")
    targets = ("refs/heads/a", "refs/heads/b", "refs/heads/a", "../config")
    refs = {name: f"ref: {target}" for name, target in zip(names, targets, strict=True)}
    write_refs(str(tmp_path), {"refs/heads/b": "2" * 40, "refs/heads/a": "1" * 40, **refs})
    assert sorted(os.listdir(tmp_path / "refs" / "remotes" / "o")) == ["HEAD", "other"]
    assert (tmp_path / "refs/remotes/o/other").read_text() == "ref: refs/heads/b\n"
    assert not (tmp_path / "refs/heads").exists() and not (tmp_path / "evil").exists()
    packed = (tmp_path / "packed-refs").read_text().splitlines()
    assert packed == ["# pack-refs with: sorted ", f"{'1' * 40} refs/heads/a", f"{'2' * 40} refs/heads/b"]


def test_the_commits_that_a_private_directory_names_are_read_as_data(tmp_path: Path) -> None:
    place, ids = tmp_path / "w" / ".git", [digit * 40 for digit in "12345"]
    (place / "refs" / "heads").mkdir(parents=True)
    (place / "HEAD").write_text(f"{ids[0]}\n")
    (place / "refs/heads/a").write_text(f"{ids[1]}\n")
    (place / "refs/heads/b").write_text("ref: refs/heads/a\n")
    (place / "refs/heads/c").write_text(f"{ids[2]}\n{ids[3]}\n")
    (tmp_path / "outside").write_text(f"{ids[4]}\n")
    (place / "refs/heads/d").symlink_to(tmp_path / "outside")
    assert named_commits(str(tmp_path / "w")) == {ids[0], ids[1]}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").symlink_to(place)
    assert named_commits(str(tmp_path / "other")) == named_commits(str(tmp_path / "none")) == set()


def test_a_shallow_clone_stays_one(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    git(top, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{top}", "shallow")
    make(str(tmp_path / "p"), user(tmp_path / "shallow"))
    assert inside(tmp_path / "p", tmp_path / "shallow", "log", "--format=%s") == "two"


names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=20)


@given(names, st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=50))
def test_git_reads_each_setting_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, name: str, value: str) -> None:
    file = tmp_path_factory.mktemp("c") / "config"
    file.write_bytes(os.fsencode("".join(_lines([(f"remote.{name}.url", value), ("user.name", value)]))))
    listed = subprocess.run(["git", "config", "--file", str(file), "--list", "-z"], check=True, capture_output=True)
    assert listed.stdout.decode() == f"remote.{name}.url\n{value}\0user.name\n{value}\0"


def test_the_identity_of_the_person_is_there_wherever_they_have_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, top, place = tmp_path / "home", checkout(tmp_path / "repo"), tmp_path / "private"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "work").write_text("[user]\n\temail = at@work\n")
    (home / ".gitconfig").write_text("[user]\n\tname = Home\n\temail = at@home\n[core]\n\teditor = evil\n")
    with (home / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{top}/"]\n\tpath = work\n')
    user = UserRepository.at(str(top))
    assert user is not None
    make(str(place), user, head=git(top, "rev-parse", "HEAD"))
    settings = git(tmp_path, "config", "--file", str(place / "config"), "--list")
    assert "user.name=Home\n" in settings and settings.split("user.email=")[-1].startswith("at@work\n")
    assert "evil" not in settings
