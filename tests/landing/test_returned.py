"""Who helps when a change is red or conflicts, and in which order."""

import pytest

from treadle.landing import queue, returned
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.train import LeftOut, QueuedChange, TrainRecord


@pytest.mark.parametrize(
    ("fields", "reconciler", "helpers"),
    [
        ({}, "", ("author", "author", "reconciler", "person")),
        ({"on_red": "reconciler"}, "", ("reconciler", "person")),
        ({"on_red": "person"}, "codex", ("person",)),
        ({"on_red": "drop"}, "codex", ()),
        ({"agent": "null"}, "", ("person",)),
        ({"agent": "null"}, "codex", ("reconciler", "person")),
    ],
)
def test_who_helps_follows_from_the_order(fields: dict[str, str], reconciler: str, helpers: tuple[str, ...]) -> None:
    assert returned.helpers(Spec(id="a", task="t", **fields), reconciler) == helpers  # type: ignore[arg-type]


def test_what_was_sent_back_keeps_its_place_its_count_and_what_was_tried() -> None:
    spec = Spec(id="a", task="t")
    train = TrainRecord(repository="r", branch="main", tip="t0")
    train = queue.joined(train, QueuedChange(order="a", commit="c0", base="b0", at=1.0))
    seen = []
    for number, order in enumerate("bcd"):
        name = train.queue[0].order
        train = queue.left_out(train, LeftOut(order=name, kind="red", why="its check failed twice", at=9.0))
        entry = returned.waiting(train)
        assert entry is not None and entry.first == "a" and entry.tries == number
        to = returned.next_helper(entry, spec, "")
        assert to is not None
        seen.append(to)
        train = returned.sent(train, entry, to, order, f"t{number}")
        train = queue.joined(train, QueuedChange(order=order, commit=f"c{order}", base="elsewhere", at=8.0))
        (change,) = train.queue
        assert (change.order, change.first, change.base, change.at) == (order, "a", f"t{number}", 1.0)
        assert train.back == ()
    assert seen == ["author", "author", "reconciler"]
    train = queue.left_out(train, LeftOut(order="d", kind="red", why="its check failed twice", at=9.0))
    (entry,) = train.back
    assert returned.next_helper(entry, spec, "") == "person" and len(entry.told) == 6
    train = returned.sent(train, entry, "person", "q", "t9")
    train = returned.answered(train, train.back[0], "try this")
    assert returned.next_helper(train.back[0], spec, "") == "author" and train.back[0].words == "try this"
