"""What is stored of a train: read as it was written, and as it was written before there was more to say."""

import msgspec
import pytest

from treadle.wire.fleet import train
from treadle.wire.fleet.records import Note

FULL = train.TrainRecord(
    repository="/r/.git",
    branch="main",
    verify="make test",
    policy="serial",
    checks_on="nodes",
    queue=(train.QueuedChange(order="a", commit="c1", alone="must", tried=("its author tried",)),),
    row=(train.Car(orders=("b",), on="c0", commit="c2", tree="t", verdict="green"),),
    apart=(train.Car(orders=("c",), on="c0", commit="c3", tree="t", reds=1, apart=True),),
    landing=train.LandingIntent(old="c0", new="c2", tree="t", orders=("b",)),
    paused=Note(at=1.0, by="ana", what="lunch"),
    back=(train.ReturnedChange(order="d", first="d", commit="c4", kind="conflict", why="a.txt", at=1.0),),
    left_out=(train.LeftOut(order="e", kind="red", why="its check failed", at=1.0),),
    flaky_tests={"test_x": 2},
)


@pytest.mark.parametrize(
    "stored",
    [
        FULL,
        train.Boarding(order="a", root="/r", branch="main"),
        train.TrainRequest(by="ana", pause="lunch"),
        train.LandedRecord(order="a", train="t", branch="main", commit="c", tree="t", seq=1, at=1.0, by="b"),
    ],
    ids=lambda stored: type(stored).__name__,
)
def test_what_is_stored_is_read_as_it_was_written_with_its_format(stored: msgspec.Struct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(stored), type=type(stored)) == stored
    assert stored.format == train.TRAIN_FORMAT  # type: ignore[attr-defined]


def test_what_was_tried_is_stored_under_the_name_that_older_trains_have() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(FULL))
    assert stored["queue"][0]["told"] == ["its author tried"]
    change = b'{"order": "d", "first": "d", "commit": "c4", "kind": "red", "why": "", "at": 1.0, "told": ["once"]}'
    assert msgspec.json.decode(change, type=train.ReturnedChange).tried == ("once",)


def test_a_train_of_which_little_was_stored_runs_two_checks_at_once_and_moves_the_branch_itself() -> None:
    read = msgspec.json.decode(b'{"repository": "/r/.git", "branch": "main"}', type=train.TrainRecord)
    assert (read.slots, read.policy, read.checks_on, read.forge, read.paused) == (2, "auto", "here", "", None)
    assert (read.red, read.seen) == (1.0, 10.0), "a guess of one in ten until more is known"


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"repository": "r", "branch": "m", "queue": [{"order": "a", "commit": "c", "alone": "?"}]}',
        b'{"repository": "r", "branch": "m", "policy": "fast"}',
        b'{"repository": "r", "branch": "m", "landing": {"old": "a", "new": "b", "tree": "t"}}',
        b'{"branch": "m"}',
    ],
)
def test_a_record_that_says_something_else_is_refused(wrong: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=train.TrainRecord)


def test_a_flag_that_no_one_set_is_off() -> None:
    assert not train.QueuedChange(order="a", commit="c").anyway and not FULL.row[0].apart
    assert not FULL.back[0].forge and not FULL.left_out[0].forge
