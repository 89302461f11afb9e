"""Work that an ended terminal has left is known by its exit record, and its id is not given away."""

import json
from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.terminal import lock
from treadle.terminal.places import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path), "x")


def ended(place: Place, workdir: object) -> None:
    Path(place.exit).write_text(json.dumps({"format": 1, "id": "x", "code": 0, "workdir": workdir}))


def test_the_workspace_is_the_one_that_the_program_worked_in(place: Place, state_home: Path) -> None:
    assert lock.base() == str(state_home / "treadle" / "worktrees")
    deep = Path(lock.base()) / "x-1a2b3c" / "repo" / "src"
    deep.mkdir(parents=True)
    ended(place, str(deep.resolve()))
    assert lock.left_in(place) == str(Path(lock.base()).resolve() / "x-1a2b3c")
    with pytest.raises(ConfigError, match="has left work") as refused:
        lock.check(place)
    assert "treadle merge x" in str(refused.value.hint)


@pytest.mark.parametrize("workdir", ["", None, 3, "/", "/etc", "relative"])
def test_a_directory_that_is_not_ours_is_no_worktree(place: Place, workdir: object) -> None:
    ended(place, workdir)
    assert lock.left_in(place) == ""
    lock.check(place)


def test_a_name_that_only_begins_like_our_directory_is_not_in_it(place: Place, state_home: Path) -> None:
    beside = Path(lock.base() + "-of-others") / "w"
    beside.mkdir(parents=True)
    ended(place, str(beside.resolve()))
    assert not lock.is_own(str(beside.resolve())) and lock.left_in(place) == ""


def test_one_that_was_brought_over_or_has_no_record_has_left_nothing(place: Place, state_home: Path) -> None:
    assert lock.left_in(place) == ""
    ended(place, str(Path(lock.base()).resolve() / "gone"))
    assert lock.left_in(place) == ""


@pytest.mark.parametrize("record", ["{broken", '{"format": 2}'])
def test_a_record_that_cannot_be_read_may_be_the_way_to_work_so_its_id_is_not_given_away(
    place: Place, record: str
) -> None:
    Path(place.exit).write_text(record)
    with pytest.raises(ConfigError, match="is unknown") as refused:
        lock.check(place)
    assert place.exit in str(refused.value.hint)
