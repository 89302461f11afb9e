"""The uuids of lines of a conversation."""

from uuid import UUID

from treadle.wire.oneshot.records import LineIds


def test_the_same_lines_in_the_same_order_have_the_same_uuids_in_another_process() -> None:
    lines = [("t1", "text", "ok"), ("t1", "call", "c1"), ("t1", "text", "ok"), ("t2", "text", "ok")]
    first, again = LineIds(), LineIds()
    ids = [first.next(*line) for line in lines]
    assert ids == [again.next(*line) for line in lines]
    assert len(set(ids)) == 4 and all(UUID(one) for one in ids), "equal lines of a turn differ too"


def test_a_line_that_says_something_else_has_another_uuid() -> None:
    assert LineIds().next("t1", "text", "a") != LineIds().next("t1", "text", "b")
