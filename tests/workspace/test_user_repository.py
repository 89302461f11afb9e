"""Which git directory belongs to a checkout: one that only claims to is not used."""

from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git
from treadle.errors import Busy
from treadle.workspace import user_repository
from treadle.workspace.user_repository import REF, UserRepository


def found(top: str | Path) -> UserRepository:
    user = UserRepository.at(str(top))
    assert user is not None
    return user


def test_a_checkout_and_a_worktree_of_it_are_found_and_share_refs(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    main, linked = found(repository.top), found(tmp_path / "w")
    assert not main.linked and linked.linked and linked.common == main.common
    assert (main.head(), linked.head()) == ("refs/heads/main", "refs/heads/side")
    assert main.checked_out_elsewhere() == {"refs/heads/side"} and "refs/heads/main" in linked.checked_out_elsewhere()
    (tmp_path / "repo" / "deep").mkdir()
    around = UserRepository.around(str(tmp_path / "repo" / "deep"))
    assert around is not None and around.top == repository.top


def test_a_git_file_that_leads_to_a_repository_of_another_checkout_is_not_followed(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    for name, text in {
        "copied": (tmp_path / "w" / ".git").read_text(),
        "plain": f"gitdir: {repository.common}\n",
        "nothing": "gitdir: /nowhere\n",
        "word": repository.common,
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / ".git").write_text(text)
        assert UserRepository.at(str(tmp_path / name)) is None, name
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".git").symlink_to(repository.common)
    assert UserRepository.at(str(tmp_path / "linked")) is None


def test_a_git_directory_that_has_its_objects_elsewhere_is_not_used(repository: Repository) -> None:
    Path(repository.common, "commondir").write_text("/elsewhere\n")
    assert UserRepository.at(repository.top) is None


def test_a_repository_without_a_checkout_says_so_itself(repository: Repository, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", repository.top, str(tmp_path / "b.git"), cwd=str(tmp_path))
    bare = UserRepository.bare(str(tmp_path / "b.git"))
    assert bare is not None and bare.is_bare and not bare.linked and not found(repository.top).linked
    git("config", "core.bare", "false", cwd=str(tmp_path / "b.git"))
    assert UserRepository.bare(str(tmp_path / "b.git")) is None
    assert UserRepository.bare(repository.common) is None and UserRepository.bare(repository.top) is None


def test_head_is_set_to_a_branch_or_a_commit_and_a_complaint_is_given_back(repository: Repository) -> None:
    user, at = found(repository.top), repository.commit()
    assert user.set_head(at, "test") == "" and user.head() == at
    assert user.set_head("refs/heads/other", "test") == "" and user.head() == "refs/heads/other"
    assert "not a valid SHA1" in user.set_head("no commit", "test")


def test_settings_have_their_scope_and_none_of_our_own(repository: Repository) -> None:
    repository.git("config", "user.signingkey", "k")
    with Path(repository.common, "config").open("a") as config:
        config.write("[odd]\n\tflag\n")
    settings = found(repository.top).settings()
    assert ("local", "user.signingkey", "k") in settings and ("local", "odd.flag", "true") in settings
    assert not [key for scope, key, _ in settings if scope == "command"]


def test_borrowed_objects_are_followed_once(repository: Repository, tmp_path: Path) -> None:
    git("clone", "-q", "--shared", repository.top, str(tmp_path / "s"), cwd=str(tmp_path))
    own, theirs = (str(place / ".git" / "objects") for place in (tmp_path / "s", Path(repository.top)))
    assert found(tmp_path / "s").object_places() == [own, theirs]
    Path(theirs, "info", "alternates").write_text(f"# back\n{own}\n/nowhere\n")
    assert found(tmp_path / "s").object_places() == [own, theirs]


@pytest.mark.parametrize(
    ("name", "is_ref"),
    [
        *(
            ("refs/heads/a", True),
            ("refs/heads/a/b-c.d", True),
            ("refs/heads/a..b", False),
            ("refs/heads/a.lock", False),
        ),
        *(("refs/heads/.a", False), ("refs/heads/a/", False), ("refs/heads/a b", False), ("refs/heads/@{1}", False)),
        *(("heads/a", False), ("refs/heads/a~1", False), ("refs/heads/a\n", False), ("refs/heads/a.", False)),
    ],
)
def test_a_ref_is_what_git_takes_for_one(name: str, is_ref: bool) -> None:
    assert bool(REF.fullmatch(name)) is is_ref


def test_a_repository_with_refs_in_tables_is_asked_for_its_head(repository: Repository) -> None:
    """The directory of the tables is enough: what the file says is not looked at then."""
    user = UserRepository.at(repository.top)
    assert user is not None
    Path(repository.common, "reftable").mkdir()
    assert user.head() == "refs/heads/main"
    repository.git("checkout", "-q", "--detach")
    assert user.head() == repository.commit()


def test_one_holds_the_lock_of_a_repository_at_a_time(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_repository, "TIMEOUT", 0)
    user = UserRepository.at(repository.top)
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "two"), cwd=repository.top)
    two = UserRepository.at(str(tmp_path / "two"))
    assert user is not None and two is not None
    with user.lock(), pytest.raises(Busy):
        two.lock().__enter__()
    with two.lock():
        pass
