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
    assert returned.next_helper(entry, spec, "") == "person" and len(entry.tried) == 6
    train = returned.sent(train, entry, "person", "q", "t9")
    train = returned.answered(train, train.back[0], "try this")
    assert returned.next_helper(train.back[0], spec, "") == "author" and train.back[0].words == "try this"


def conflicts(train: TrainRecord, order: str) -> TrainRecord:
    out = LeftOut(order=order, kind="conflict", why="it conflicts in hot.txt", at=9.0, files=("hot.txt",))
    return queue.left_out(train, out)


def test_of_many_that_append_to_one_file_all_land_and_none_has_used_its_tries_up() -> None:
    """Of all that was helped on the same tip one can land; the others conflict again."""
    spec, many = Spec(id="a", task="t"), 12
    train = TrainRecord(repository="r", branch="main", tip="0")
    for number in range(many):
        train = queue.joined(train, QueuedChange(order=f"o{number}", commit=f"c{number}", at=float(number)))
        train = conflicts(train, f"o{number}")
    landed: list[str] = []
    helps = 0
    while train.back:
        while (entry := returned.waiting(train)) is not None:
            assert returned.next_helper(entry, spec, "") == "author"
            helps += 1
            train = returned.sent(train, entry, "author", f"h{helps}", str(len(landed)))
        oldest = min((each for each in train.back if each.by), key=lambda each: each.at)
        helped = [each.by for each in train.back if each.by]
        for by in helped:
            train = queue.joined(train, QueuedChange(order=by, commit=f"c{by}", at=99.0))
        landed.append(oldest.first)
        train = queue.removed(train, [oldest.by])
        for by in helped:
            train = conflicts(train, by) if by != oldest.by else train
    assert landed == [f"o{number}" for number in range(many)]
    assert helps == many + (many - 1), "all at once the first time, then one after the other"


def test_a_conflict_elsewhere_waits_for_no_one_and_a_red_change_counts_its_tries() -> None:
    train = TrainRecord(repository="r", branch="main", tip="0")
    for number, file in enumerate(("hot.txt", "other.txt")):
        change = QueuedChange(order=f"o{number}", commit="c", at=float(number), files=(file,), tried=("once",), tries=1)
        train = queue.joined(train, change)
        out = LeftOut(order=f"o{number}", kind="conflict", why="it conflicts", at=9.0, files=(file,))
        train = queue.left_out(train, out)
        entry = returned.waiting(train)
        assert entry is not None and (entry.order, entry.tries) == (f"o{number}", 0)
        train = returned.sent(train, entry, "author", f"h{number}", "0")
    red = QueuedChange(order="red", commit="c", files=("hot.txt",), tried=("once",), tries=1)
    train = queue.left_out(queue.joined(train, red), LeftOut(order="red", kind="red", why="red", at=9.0))
    entry = returned.waiting(train)
    assert entry is not None and (entry.order, entry.tries) == ("red", 1)
