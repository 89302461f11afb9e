"""What reaches a person's repository was hashed and checked on the way, whoever made it."""

import os
import zlib
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git
from treadle.errors import WorkspaceError
from treadle.workspace.store import Store, give, lacks, receive, receive_bundle
from treadle.workspace.user_repository import UserRepository

WHO = {f"GIT_{role}_{name}": "a" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")}


@pytest.fixture
def store(tmp_path: Path, user: UserRepository) -> Store:
    return Store.make(str(tmp_path / "store"), lenders=user.object_places())


def commit(store: Store, base: str, name: bytes, blob: str) -> str:
    """Of a tree with one file, without any check of its name."""
    tree = store.put("tree", b"100644 %s\0" % name + bytes.fromhex(blob))
    return store.commit(tree, [base], "made", who=WHO)


def test_a_commit_arrives_with_all_that_it_needs(store: Store, user: UserRepository, repository: Repository) -> None:
    made = commit(store, repository.commit(), b"new.txt", store.put("blob", b"new\n"))
    assert lacks(user, [made, repository.commit()]) == [made]
    give(store, user, made, without=repository.commit())
    assert (
        repository.git("show", f"{made}:new.txt") == "new\n"
        and repository.git("fsck", "--strict", "--no-dangling") == ""
    )
    assert lacks(user, [made]) == lacks(user, []) == []


def test_a_bundle_arrives_too_and_what_was_wanted_and_not_in_it_is_named(
    store: Store, user: UserRepository, repository: Repository
) -> None:
    made = commit(store, repository.commit(), b"new.txt", store.put("blob", b"new\n"))
    store.set_ref("refs/heads/made", made)
    bundle, lost = store.bundle("refs/heads/made", without=[repository.commit()]), "1" * 40
    with pytest.raises(WorkspaceError, match=f"not all of 2 objects arrived, such as {made}"):
        receive_bundle(user, bundle, [made, lost])
    receive_bundle(user, bundle, [made])
    assert repository.git("show", f"{made}:new.txt") == "new\n"
    with pytest.raises(WorkspaceError, match="index-pack failed"):
        receive(user, b"no pack", [made])


def test_in_a_repository_of_the_longer_hash_it_is_known_what_is_there(tmp_path: Path) -> None:
    git("init", "-q", "--object-format=sha256", "wide", cwd=str(tmp_path))
    there = git("hash-object", "-w", "--stdin", cwd=str(tmp_path / "wide"), stdin=b"x").stdout.decode().strip()
    wide = UserRepository.at(str(tmp_path / "wide"))
    assert wide is not None and lacks(wide, ["1" * 64, there, "2" * 64]) == ["1" * 64, "2" * 64]


@pytest.mark.parametrize(
    ("name", "bundled"),
    [
        (b".git", True),
        (b".GIT", False),
        (".g\u200cit".encode(), True),
        (b"git~1", False),
        (b"..", True),
        (b"a/b", False),
    ],
)
def test_a_tree_with_a_name_that_misleads_does_not_arrive(
    store: Store, user: UserRepository, repository: Repository, name: bytes, bundled: bool
) -> None:
    made = commit(store, repository.commit(), name, store.put("blob", b"x"))
    store.set_ref("refs/heads/made", made)
    with pytest.raises(WorkspaceError, match="index-pack failed"):
        if bundled:
            receive_bundle(user, store.bundle("refs/heads/made", without=[repository.commit()]), [made])
        else:
            give(store, user, made, without=repository.commit())
    assert lacks(user, [made]) == [made]


def test_an_object_with_other_content_under_its_name_does_not_arrive(
    store: Store, user: UserRepository, repository: Repository
) -> None:
    blob = store.put("blob", b"honest\n")
    made = commit(store, repository.commit(), b"a.txt", blob)
    place = os.path.join(store.directory, "objects", blob[:2], blob[2:])
    os.chmod(place, 0o600)
    Path(place).write_bytes(zlib.compress(b"blob 7\0forged\n"))
    with pytest.raises(WorkspaceError):
        give(store, user, made, without=repository.commit())
    assert lacks(user, [made]) == [made] or lacks(user, [blob]) == [blob]
