"""A checkout without its repository: what the sandbox shows in its place, and when one repository follows the other."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import LocalError, TimedOut
from treadle.workspace.checkouts import around
from treadle.workspace.in_place import LIST, InPlace


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


async def test_nothing_runs_in_the_sandbox_while_neither_side_has_done_anything(
    repository: Repository, tmp_path: Path
) -> None:
    place, asked = placed(repository, tmp_path), Asked()
    await place.ready(asked)
    assert await place.settle(asked) == [] and asked.calls == []
    os.utime(f"{repository.common}/HEAD", (1, 1))
    await place.ready(asked)
    assert asked.calls == [], "touched, and the same"


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


def test_a_repository_without_commits_has_nothing_to_keep(tmp_path: Path) -> None:
    place = placed(make(tmp_path / "empty", commit=False), tmp_path)
    assert (place.head, place.problem, place.refs) == ("refs/heads/main", "", {})


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
