"""A person's index is changed only under git's own lock, and a lock that we left is known from one that they hold."""

import os
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, make
from treadle.workspace import index_file
from treadle.workspace.private_git import Staged
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def note(tmp_path: Path) -> str:
    return str(tmp_path / "note")


def blob(repository: Repository, text: str) -> Staged:
    Path(repository.top, "b.txt").write_text(text)
    return Staged("100644", repository.git("hash-object", "-w", "b.txt").strip())


def lock_of(repository: Repository) -> Path:
    return Path(repository.common, "index.lock")


def test_entries_are_put_and_removed_while_no_git_of_the_person_can_stage(
    repository: Repository, user: UserRepository, note: str
) -> None:
    old, new = index_file.entries(user), {b"b.txt": blob(repository, "b")}
    with index_file.held(user, note) as index:
        assert lock_of(repository).exists()
        with pytest.raises(AssertionError, match="index.lock"):
            repository.git("add", "b.txt")
        index.change(old, new)
        index.write("refs/heads/main", {})
        assert index_file.entries(user) == old, "nothing changes before put"
        index.put()
    assert index_file.entries(user) == new
    assert not lock_of(repository).exists() and not os.path.exists(note)


def test_what_is_not_put_leaves_the_index_and_nothing_beside_it(
    repository: Repository, user: UserRepository, note: str
) -> None:
    before, names = index_file.entries(user), sorted(os.listdir(repository.common))
    with pytest.raises(ZeroDivisionError), index_file.held(user, note) as index:
        index.change(before, {})
        index.write("refs/heads/main", {})
        raise ZeroDivisionError
    assert index_file.entries(user) == before and sorted(os.listdir(repository.common)) == names


def test_a_lock_of_the_person_is_waited_for_and_never_taken(
    repository: Repository, user: UserRepository, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "PATIENCE", 0.0)
    lock_of(repository).write_bytes(b"theirs")
    with pytest.raises(FileExistsError), index_file.held(user, note):
        pass
    assert lock_of(repository).read_bytes() == b"theirs"
    assert index_file.release(user, note) is False, "our note does not fit their lock"
    assert lock_of(repository).read_bytes() == b"theirs"


def left(user: UserRepository, note: str, new: dict[bytes, Staged], refs: dict[str, str]) -> None:
    """What a process that is killed between the move of the refs and `put` leaves."""
    with index_file.held(user, note) as index:
        index.change(index_file.entries(user), new)
        index.write("refs/heads/main", refs)
        beside = next(name for name in os.listdir(user.directory) if name.startswith("index.") and name != "index.lock")
        kept = [(path, Path(path).read_bytes()) for path in (note, user.file("index.lock"), user.file(beside))]
    for path, data in kept:
        Path(path).write_bytes(data)


def test_after_a_kill_the_index_follows_refs_that_have_moved(
    repository: Repository, user: UserRepository, note: str
) -> None:
    new = {b"b.txt": blob(repository, "b")}
    left(user, note, new, {"refs/heads/main": repository.commit()})
    assert index_file.release(user, note) is True
    assert index_file.entries(user) == new and not lock_of(repository).exists()
    assert not [name for name in os.listdir(repository.common) if name.startswith("index.")]


def test_after_a_kill_the_index_stays_where_the_refs_have_not_moved(
    repository: Repository, user: UserRepository, note: str
) -> None:
    before = index_file.entries(user)
    left(user, note, {b"b.txt": blob(repository, "b")}, {"refs/heads/main": "0" * 40})
    assert index_file.release(user, note) is True
    assert index_file.entries(user) == before and not lock_of(repository).exists()


def test_without_a_note_there_is_nothing_to_release(user: UserRepository, note: str) -> None:
    assert index_file.release(user, note) is False


def test_the_time_of_the_index_stays_so_that_git_looks_into_files_that_are_as_new(
    repository: Repository, user: UserRepository, note: str
) -> None:
    os.utime(user.file("index"), ns=(10**18, 10**18))
    with index_file.held(user, note) as index:
        index.change(index_file.entries(user), {b"b.txt": blob(repository, "b")})
        index.write("refs/heads/main", {})
        index.put()
    assert os.stat(user.file("index")).st_mtime_ns == 10**18
    assert index_file.whole_index(user)[1] == b"1000000000.000000000"


def test_flags_conflicts_and_an_index_in_two_parts_are_kept_as_git_has_them(
    repository: Repository, user: UserRepository, note: str
) -> None:
    repository.git("update-index", "--skip-worktree", "a.txt")
    old = index_file.entries(user)
    one, two = blob(repository, "one"), blob(repository, "two")
    with index_file.held(user, note) as index:
        index.change(old, {**old, b"a.txt": one}, [(b"c.txt", one, "2"), (b"c.txt", two, "3")])
        index.write("refs/heads/main", {})
        index.put()
    assert index_file.entries(user) == {**old, b"a.txt": one}, "those in conflict are left out"
    assert repository.git("ls-files", "-t", "--", "a.txt") == "S a.txt\n"
    listed = repository.git("ls-files", "-u", "-z").split("\0")[:-1]
    assert listed == [f"100644 {one.id} 2\tc.txt", f"100644 {two.id} 3\tc.txt"]
    plain = index_file.whole_index(user)
    found = os.stat(user.file("index")).st_mtime_ns
    assert plain == (Path(user.file("index")).read_bytes(), b"%d.%09d" % (found // 10**9, found % 10**9))
    repository.git("update-index", "--split-index")
    data, stamp = index_file.whole_index(user)
    assert data != Path(user.file("index")).read_bytes() and stamp != plain[1]
    Path(note).write_bytes(data)
    assert index_file.entries(user, note) == {**old, b"a.txt": one} and os.stat(user.file("index")).st_mtime_ns


def test_a_checkout_without_an_index_gets_one_that_others_may_read(tmp_path: Path, note: str) -> None:
    repository = make(tmp_path / "new", commit=False)
    user = UserRepository.at(repository.top)
    assert user is not None and index_file.entries(user) == {}
    new = {b"b.txt": blob(repository, "b")}
    with index_file.held(user, note) as index:
        index.change({}, new)
        index.write("refs/heads/main", {})
        index.put()
    assert index_file.entries(user) == new and os.stat(user.file("index")).st_mode & 0o777 == 0o644
    assert not lock_of(repository).exists() and not os.path.exists(note)
