"""A checkout without its repository: what the sandbox shows in its place, and when one repository follows the other."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import LocalError, TimedOut
from treadle.session import Mount
from treadle.workspace.checkouts import around
from treadle.workspace.in_place import RECORD, RENEW, InPlace, PlaceRecord, _update
from treadle.workspace.takeover import LIST, ROOM


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make(tmp_path / "repo")


def placed(repository: Repository, tmp_path: Path, top: str = "", number: int = 0) -> InPlace:
    return InPlace(around(top or repository.top), str(tmp_path / f"ours{number}"), "session-1", number)


class Asked:
    """Stands for the sandbox: what was to be run there, with which files."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, dict[str, bytes]]] = []
        self._error = error

    async def __call__(self, script: str, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self.calls.append((script, dict(given)))
        if self._error is not None:
            raise self._error
        return {}


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


def test_the_users_repository_and_hooks_are_read_only(repository: Repository, tmp_path: Path) -> None:
    place = placed(repository, tmp_path)
    assert place.hooks_place == f"{repository.common}/hooks"
    ours = {f"{repository.common}{part}" for part in ("", "/objects", "/config")}
    assert ours <= set(place.read_only())


@pytest.mark.parametrize("inside", [True, False])
def test_hooks_of_another_place_are_shown_where_they_are(repository: Repository, tmp_path: Path, inside: bool) -> None:
    hooks = Path(repository.top if inside else tmp_path) / "my-hooks"
    hooks.mkdir()
    git("config", "core.hooksPath", str(hooks), cwd=repository.top)
    place = placed(repository, tmp_path)
    assert place.hooks_place == str(hooks) and str(hooks) not in [mount.source for mount in place.mounts]
    assert str(hooks) in place.read_only()


def test_a_linked_checkout_leads_to_the_private_repository(repository: Repository, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "-b", "two", str(tmp_path / "two"), cwd=repository.top)
    place = placed(repository, tmp_path, str(tmp_path / "two"))
    private, pointer = place.mounts[:2]
    assert private == Mount(source=place.private, target=f"{ROOM}/0/git", write=True)
    assert pointer.target == str(tmp_path / "two" / ".git") and not pointer.write
    assert Path(pointer.source).read_text() == f"gitdir: {ROOM}/0/git\n"


def test_parts_that_lie_beside_the_objects_are_shown_too(repository: Repository, tmp_path: Path) -> None:
    for name in ("modules", "lfs"):
        Path(repository.common, name).mkdir()
    found = {mount.source: mount.target for mount in placed(repository, tmp_path).mounts}
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
