"""A checkout without its repository: what the sandbox shows in its place, and when one repository follows the other."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import LocalError, TimedOut
from treadle.session import Mount
from treadle.workspace import index_file
from treadle.workspace.checkouts import around
from treadle.workspace.in_place import LIST, RECORD, RENEW, ROOM, InPlace, PlaceRecord, _update
from treadle.workspace.private_git import MARK


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make(tmp_path / "repo")


def placed(repository: Repository, tmp_path: Path, top: str = "", number: int = 0) -> InPlace:
    return InPlace(around(top or repository.top), str(tmp_path / f"ours{number}"), "session-1", number)


class Asked:
    """Stands for the sandbox: what was to be run there, with which files."""

    def __init__(self, answer: Mapping[str, bytes] | None = None, *, error: Exception | None = None) -> None:
        self._answer = answer or {}
        self.calls: list[tuple[str, dict[str, bytes]]] = []
        self._error = error

    async def __call__(self, script: str, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self.calls.append((script, dict(given)))
        if self._error is not None:
            raise self._error
        return self._answer


def test_the_private_repository_is_shown_in_place_of_the_users(repository: Repository, tmp_path: Path) -> None:
    place = placed(repository, tmp_path, number=3)
    top, common = repository.top, repository.common
    assert place.mounts[:2] == (
        Mount(source=place.private, target=f"{top}/.git", write=True),
        Mount(source=f"{common}/objects", target=f"{ROOM}/3/objects"),
    )
    assert not any(mount.write for mount in place.mounts[1:]) and place.is_settled()
    record = msgspec.json.decode(Path(place.directory, RECORD).read_bytes(), type=PlaceRecord)
    assert (record.format, record.top, record.session) == (1, top, "session-1")
    assert record.objects == ((f"{common}/objects", f"{ROOM}/3/objects"),)
    assert os.stat(place.directory).st_mode & 0o777 == 0o700
    assert Path(place.private, MARK).exists() and Path(place.private, "objects/info/alternates").read_text() == (
        f"{ROOM}/3/objects\n"
    )
    assert (place.problem, place.stale) == ("", False)


def test_borrowed_objects_are_shown_without_their_own_lists_and_filters_are_kept(
    repository: Repository, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    git("clone", "-q", "--shared", repository.top, str(second), cwd=str(tmp_path))
    git("config", "filter.lfs.clean", "git-lfs clean -- %f", cwd=str(second))
    place = placed(repository, tmp_path, str(second))
    found = {mount.target: mount.source for mount in place.mounts}
    assert found[f"{ROOM}/0/objects"] == f"{second}/.git/objects"
    assert found[f"{ROOM}/0/objects-1"] == f"{repository.common}/objects"
    assert Path(found[f"{ROOM}/0/objects/info/alternates"]).read_bytes() == b""
    assert f"{ROOM}/0/objects-1/info/alternates" not in found
    assert "git-lfs clean" in Path(place.private, "config").read_text()


def test_the_users_repository_and_hooks_are_read_only(repository: Repository, tmp_path: Path) -> None:
    place = placed(repository, tmp_path)
    assert place.hooks_place == f"{repository.common}/hooks"
    ours = {f"{repository.common}{part}" for part in ("", "/objects", "/config")}
    assert ours <= set(place.read_only())


def test_a_directory_of_hooks_around_the_checkout_is_not_made_read_only(repository: Repository, tmp_path: Path) -> None:
    git("config", "core.hooksPath", str(tmp_path), cwd=repository.top)
    assert str(tmp_path) not in placed(repository, tmp_path).read_only()


@pytest.mark.parametrize("named", ["", ".git/hooks"])
def test_hooks_at_gits_own_place_are_shown_there(repository: Repository, tmp_path: Path, named: str) -> None:
    hooks = Path(repository.common, "hooks")
    hooks.mkdir(exist_ok=True)
    if named:
        git("config", "core.hooksPath", named, cwd=repository.top)
    place = placed(repository, tmp_path)
    assert Mount(source=str(hooks), target=f"{repository.top}/.git/hooks") in place.mounts
    assert "hooksPath" not in Path(place.private, "config").read_text()


@pytest.mark.parametrize("inside", [True, False])
def test_hooks_of_another_place_are_shown_where_they_are(repository: Repository, tmp_path: Path, inside: bool) -> None:
    hooks = Path(repository.top if inside else tmp_path) / "my-hooks"
    hooks.mkdir()
    git("config", "core.hooksPath", str(hooks), cwd=repository.top)
    place = placed(repository, tmp_path)
    assert place.hooks_place == str(hooks) and str(hooks) not in [mount.source for mount in place.mounts]
    assert f'hooksPath = "{hooks}"' in Path(place.private, "config").read_text()
    assert str(hooks) in place.read_only()


def test_a_linked_checkout_leads_to_the_private_repository(repository: Repository, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "-b", "two", str(tmp_path / "two"), cwd=repository.top)
    place = placed(repository, tmp_path, str(tmp_path / "two"))
    private, pointer = place.mounts[:2]
    assert private == Mount(source=place.private, target=f"{ROOM}/0/git", write=True)
    assert pointer.target == str(tmp_path / "two" / ".git") and not pointer.write
    assert Path(pointer.source).read_text() == f"gitdir: {ROOM}/0/git\n"
    assert f'worktree = "{tmp_path}/two"' in Path(place.private, "config").read_text()


def test_parts_that_lie_beside_the_objects_are_shown_too(repository: Repository, tmp_path: Path) -> None:
    for name in ("modules", "lfs"):
        Path(repository.common, name).mkdir()
    place = placed(repository, tmp_path)
    assert Path(place.private, "modules").is_dir() and not Path(place.private, "lfs").exists()
    found = {mount.source: mount.target for mount in place.mounts}
    assert found[f"{repository.common}/modules"] == f"{repository.top}/.git/modules"
    assert found[f"{repository.common}/lfs"] == f"{ROOM}/0/lfs"


async def test_nothing_runs_in_the_sandbox_while_neither_side_has_done_anything(
    repository: Repository, tmp_path: Path
) -> None:
    place, asked = placed(repository, tmp_path), Asked()
    await place.ready(asked)
    assert await place.settle(asked) == [] and asked.calls == []
    os.utime(f"{repository.common}/HEAD", (1, 1))
    await place.ready(asked)
    assert asked.calls == [], "touched, and the same"


async def test_what_the_user_did_reaches_the_private_repository_once(repository: Repository, tmp_path: Path) -> None:
    git("branch", "old", cwd=repository.top)
    place, asked = placed(repository, tmp_path), Asked()
    git("branch", "new", cwd=repository.top)
    git("branch", "-D", "old", cwd=repository.top)
    await place.ready(asked)
    [(script, given)] = asked.calls
    assert script == RENEW and given["head"].decode() == around(repository.top).head()
    assert given["refs"].decode() == f"update refs/heads/new {repository.commit()}\ndelete refs/heads/old\n"
    assert given["index"] and float(given["when"]) > 0
    await place.ready(asked)
    assert len(asked.calls) == 1 and place.is_settled()


async def test_a_private_repository_that_has_fallen_behind_is_renewed_wholly(
    repository: Repository, tmp_path: Path
) -> None:
    git("branch", "other", cwd=repository.top)
    place, asked, at = placed(repository, tmp_path), Asked(), repository.commit()
    Path(place.private, "MERGE_HEAD").write_text("")
    place.stale = True
    await place.ready(asked)
    [(_, given)] = asked.calls
    assert given["refs"].decode() == f"update refs/heads/main {at}\nupdate refs/heads/other {at}\n"
    assert not place.stale and place.is_settled()
    await place.ready(asked)
    assert len(asked.calls) == 1


async def test_what_both_have_is_kept_as_it_is_after_each_step_of_the_user(
    repository: Repository, tmp_path: Path
) -> None:
    place, asked = placed(repository, tmp_path), Asked()

    def kept() -> set[str]:
        return set(repository.git("for-each-ref", "--format=%(objectname)", "refs/treadle/base").split())

    first = repository.commit()
    assert kept() == {first}
    Path(repository.top, "a.txt").write_text("two\n")
    repository.git("commit", "-qam", "two")
    await place.ready(asked)
    assert kept() == {first, repository.commit()} and place._entries == index_file.entries(place.user)
    assert Path(place.directory, "base").read_text() == f"1 refs/heads/main\nrefs/heads/main {repository.commit()}"
    Path(repository.top, "a.txt").write_text("staged\n")
    repository.git("add", "a.txt")
    await place.ready(asked)
    assert len(asked.calls) == 2 and asked.calls[1][1]["refs"] == b""
    repository.git("checkout", "-q", "--detach")
    await place.ready(asked)
    assert asked.calls[2][1]["head"].decode() == repository.commit() and len(kept()) == 2
    detached = placed(repository, tmp_path, number=1)
    assert detached.head == repository.commit() and detached.problem == ""


def test_a_repository_without_commits_has_nothing_to_keep(tmp_path: Path) -> None:
    place = placed(make(tmp_path / "empty", commit=False), tmp_path)
    assert (place.head, place.problem, place.refs) == ("refs/heads/main", "", {})


def test_whatever_git_keeps_refs_in_is_looked_at_and_refs_of_ours_are_not(
    repository: Repository, tmp_path: Path
) -> None:
    common = Path(repository.common)
    (common / "packed-refs").touch()
    (common / "reftable").mkdir()
    place = placed(repository, tmp_path)
    states = [place._user_state()]
    (common / "refs" / "treadle" / "own").write_text("x")
    assert place._user_state() == states[0]
    for name in ("packed-refs", "reftable/tables.list", "HEAD", "index", "refs/heads/x"):
        (common / name).write_bytes(b"other")
        states.append(place._user_state())
    assert len(set(states)) == 6


async def test_an_agent_that_did_nothing_else_is_settled_and_one_in_the_middle_is_not(
    repository: Repository, tmp_path: Path
) -> None:
    place, at = placed(repository, tmp_path), repository.commit()
    index = git("ls-files", "-t", "--stage", "-z", cwd=repository.top).stdout
    same = {"head": b"refs/heads/main", "refs": f"{at} refs/heads/main \n".encode(), "index": index}
    Path(place.private, "MERGE_HEAD").write_text("")
    [note] = await place.settle(Asked({**same, "unfinished": b"MERGE_HEAD"}))
    assert note.startswith("unfinished in the agent's repository: MERGE_HEAD") and not place.is_settled()
    os.unlink(os.path.join(place.private, "MERGE_HEAD"))
    assert await place.settle(Asked(same)) == [] and place.is_settled()
    Path(place.private, "refs/heads/loop").symlink_to("/")
    asked = Asked(same)
    [note] = await place.settle(asked)
    assert "is a link to a directory" in note and asked.calls == [] and not place.is_settled()


async def test_the_user_does_not_overrun_an_agent_that_has_moved_too(repository: Repository, tmp_path: Path) -> None:
    place, asked = placed(repository, tmp_path), Asked()
    git("branch", "new", cwd=repository.top)
    Path(place.private, "MERGE_HEAD").write_text("")
    assert not place.is_settled()
    await place.ready(asked)
    assert asked.calls == []


@pytest.mark.parametrize("error", [LocalError("broken"), TimedOut("too long"), OSError("no disk")])
async def test_what_could_not_be_taken_over_is_said_and_not_called_settled(
    repository: Repository, tmp_path: Path, error: Exception
) -> None:
    place, asked = placed(repository, tmp_path), Asked(error=error)
    Path(place.private, "MERGE_HEAD").write_text("")
    [note] = await place.settle(asked)
    assert [script for script, _ in asked.calls] == [LIST] and not place.is_settled()
    assert note.startswith("what the agent did with git was not taken over: ") and str(error) in note
    again = await place.settle(asked)
    assert again == [] and len(asked.calls) == (2 if isinstance(error, TimedOut) else 1)


def test_what_is_removed_leaves_nothing_in_the_users_repository(repository: Repository, tmp_path: Path) -> None:
    before = repository.git("for-each-ref")
    place = placed(repository, tmp_path)
    place.remove()
    assert not os.path.exists(place.directory) and repository.git("for-each-ref") == before


def test_only_plain_refs_are_moved() -> None:
    assert _update("refs/heads/a", "1" * 40) == f"update refs/heads/a {'1' * 40}\n"
    assert _update("refs/heads/a", None) == "delete refs/heads/a\n"
    assert _update("refs/heads/a", "ref: refs/heads/b") == "" and _update("refs/heads/a\nb", "1" * 40) == ""
