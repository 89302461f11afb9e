"""A branch of a remote: moved only from where it was seen, and no password is told."""

from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import NotFound, WorkspaceError
from treadle.workspace import merges, remotes
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.remotes import PushRefused, Remote, RemoteBranch, ref_of, shown, split
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = make(tmp_path / "r")
    git("clone", "-q", "--bare", made.top, str(tmp_path / "there.git"), cwd=str(tmp_path))
    made.git("remote", "add", "origin", "../there.git")
    return made


@pytest.fixture
def branch(repository: Repository, tmp_path: Path) -> RemoteBranch:
    user = UserRepository.at(repository.top)
    assert user is not None
    store = Store.make(str(tmp_path / "store"), lenders=user.object_places())
    return RemoteBranch(Remote(user, "origin"), "main", store)


def there(tmp_path: Path) -> str:
    return git("rev-parse", "main", cwd=str(tmp_path / "there.git")).stdout.decode().strip()


def made_on(branch: RemoteBranch, tip: str, word: str) -> str:
    """Another commit with the same files."""
    tree, _ = branch.store.borrow_tree(tip)
    return branch.store.commit(tree, [tip], f"{word}\n", who=merges.fixed_identity(branch.store, [tip]))


def test_a_branch_is_pushed_from_where_it_was_seen(
    branch: RemoteBranch, repository: Repository, tmp_path: Path
) -> None:
    tip = branch.tip()
    assert tip == repository.commit() == there(tmp_path)
    branch.move(tip, new := made_on(branch, tip, "one"))
    assert there(tmp_path) == new == branch.tip()
    assert repository.commit("refs/remotes/origin/main") == new, "the repository knows what is there"


def test_a_branch_that_is_elsewhere_by_now_is_not_moved(branch: RemoteBranch, tmp_path: Path) -> None:
    tip = branch.tip()
    branch.move(tip, new := made_on(branch, tip, "one"))
    with pytest.raises(BranchMoved, match=f"no longer at {tip[:12]}"):
        branch.move(tip, made_on(branch, tip, "two"))
    assert there(tmp_path) == new


def test_a_hook_that_refuses_is_told_in_its_words(branch: RemoteBranch, tmp_path: Path) -> None:
    hook = tmp_path / "there.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on a Friday\nexit 1\n")
    hook.chmod(0o755)
    tip = branch.tip()
    with pytest.raises(PushRefused, match="refuses to move main: .*not on a Friday"):
        branch.move(tip, made_on(branch, tip, "one"))
    assert there(tmp_path) == tip


def test_what_is_not_there_is_said(branch: RemoteBranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "PAUSE", 0.0)
    with pytest.raises(NotFound, match="no remote 'up'") as raised:
        Remote(branch.user, "up")
    assert raised.value.hint == "there are: origin"
    with pytest.raises(WorkspaceError, match="origin has no branch gone"):
        RemoteBranch(branch.remote, "gone", branch.store).tip()
    with pytest.raises(WorkspaceError, match="not the name of a branch"):
        RemoteBranch(branch.remote, "a..b", branch.store)
    branch.remote.address = "/nowhere"
    with pytest.raises(WorkspaceError, match="origin cannot be read"):
        branch.tip()


def test_a_password_in_an_address_is_in_no_error(branch: RemoteBranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "PAUSE", 0.0)
    branch.remote.address = branch.remote.pushed = "http://me:s3cret@127.0.0.1:9/x.git"
    tip = branch.user.refs()["refs/heads/main"]
    with pytest.raises(WorkspaceError) as read:
        branch.tip()
    with pytest.raises(WorkspaceError) as pushed:
        branch.move(tip, made_on(branch, tip, "x"))
    for error in (read.value, pushed.value):
        assert "s3cret" not in str(error) and "127.0.0.1" in str(error)


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("https://me:pw@git.example/x", "https://git.example/x"),
        ("https://token@git.example:8443/x", "https://git.example:8443/x"),
        ("ssh://git@git.example/x", "ssh://git.example/x"),
        ("git@git.example:x", "git@git.example:x"),
        ("/srv/x.git", "/srv/x.git"),
    ],
)
def test_an_address_is_shown_without_the_name_and_password_in_it(address: str, seen: str) -> None:
    assert shown(address) == seen


def test_a_branch_of_a_remote_is_named_with_a_colon() -> None:
    assert split("main") == ("", "main") and split("up:a/b") == ("up", "a/b")
    assert ref_of("main") == "refs/heads/main" and ref_of("up:a/b") == "refs/remotes/up/a/b"


def test_a_relative_address_is_meant_from_the_repository(branch: RemoteBranch, repository: Repository) -> None:
    assert branch.remote.address == f"{repository.top}/../there.git"
    repository.git("remote", "set-url", "--push", "origin", "ssh://git.example/x")
    again = Remote(branch.user, "origin")
    assert again.pushed == "ssh://git.example/x" and again.address == branch.remote.address
