"""A branch of a remote: moved only from where it was seen, and no password is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import NotFound, WorkspaceError, kind_of
from treadle.workspace import branch_merges, remotes
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.remotes import PushRefused, Remote, RemoteAway, RemoteBranch
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
    return branch.store.commit(tree, [tip], f"{word}\n", who=branch_merges.fixed_identity(branch.store, [tip]))


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
    hook.write_text(f"#!/bin/sh\necho not on a Friday\necho once >> {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    tip = branch.tip()
    with pytest.raises(PushRefused, match="refuses to move main: .*not on a Friday"):
        branch.move(tip, made_on(branch, tip, "one"))
    assert there(tmp_path) == tip and (tmp_path / "ran").read_text() == "once\n"


def test_a_remote_that_could_not_store_what_was_sent_is_away_and_has_refused_nothing(
    branch: RemoteBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "time", Pauses())
    tip = branch.tip()
    git("config", "receive.maxInputSize", "1", cwd=tmp_path / "there.git")  # as good as a disk that is full
    with pytest.raises(RemoteAway, match="unpacker error") as raised:
        branch.move(tip, made_on(branch, tip, "one"))
    assert kind_of(raised.value) == "transient" and there(tmp_path) == tip


class Pauses:
    """Stands for `time`: what was slept, and what happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.slept: list[float] = []
        self._meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._meanwhile()


def test_a_push_at_the_same_moment_as_anothers_is_tried_again(
    branch: RemoteBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip, lock = branch.tip(), tmp_path / "there.git" / "refs" / "heads" / "main.lock"
    new = made_on(branch, tip, "one")
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    monkeypatch.setattr(remotes, "time", stays := Pauses())
    with pytest.raises(PushRefused, match="refuses to move main: .*") as raised:
        branch.move(tip, new)
    assert stays.slept == [1.0, 2.0] and not str(raised.value).endswith("()") and there(tmp_path) == tip
    monkeypatch.setattr(remotes, "time", goes := Pauses(lock.unlink))
    branch.move(tip, new)
    assert goes.slept == [1.0] and there(tmp_path) == new


def test_a_branch_beside_it_is_pushed_by_force_or_only_where_there_is_none_and_removed(
    branch: RemoteBranch, tmp_path: Path
) -> None:
    tip = branch.tip()
    one, two = made_on(branch, tip, "one"), made_on(branch, tip, "two")
    branch.push(one, "refs/heads/beside", lease="")
    with pytest.raises(BranchMoved, match="beside of origin is no longer at $"):
        branch.push(two, "refs/heads/beside", lease="")
    branch.push(two, "refs/heads/beside")
    assert git("rev-parse", "beside", cwd=str(tmp_path / "there.git")).stdout.decode().strip() == two
    branch.delete("beside")
    assert git("branch", "--format=%(refname)", cwd=str(tmp_path / "there.git")).stdout == b"refs/heads/main\n"


def test_the_settings_of_the_person_say_where_an_address_leads(
    branch: RemoteBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "time", pauses := Pauses())
    branch.remote.address = "mine:x"
    with pytest.raises(WorkspaceError, match="origin cannot be read: .*") as raised:
        branch.tip()
    assert pauses.slept == [1.0, 2.0] and "exit code" not in str(raised.value)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(f'[url "{tmp_path}/there.git"]\n\tinsteadOf = mine:x\n')
    assert branch.tip() == there(tmp_path)


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


def test_a_relative_address_is_meant_from_the_repository(branch: RemoteBranch, repository: Repository) -> None:
    assert branch.remote.address == branch.remote.pushed == f"{repository.top}/../there.git"
    repository.git("remote", "set-url", "--push", "origin", "ssh://git.example/x")
    again = Remote(branch.user, "origin")
    assert again.pushed == "ssh://git.example/x" and again.address == branch.remote.address
