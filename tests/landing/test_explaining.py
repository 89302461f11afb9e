"""Where the work of an order is, in lines for a person; by command in tests/cli/test_land.py."""

from treadle.landing import explaining
from treadle.wire.fleet.records import Note
from treadle.wire.fleet.train import Car, LandedRecord, LeftOut, QueuedChange, TrainRecord


def change(name: str, **more: object) -> QueuedChange:
    return QueuedChange(order=name, commit="c" * 40, base="b", at=1.0, **more)  # type: ignore[arg-type]


def test_what_landed_is_told_by_its_commit_and_the_tree_that_was_checked() -> None:
    proof = LandedRecord(order="a", train="t", branch="main", commit="1" * 40, tree="2" * 40, seq=1, at=0.0)
    first, second = explaining._landed(proof)
    assert "1" * 12 in first and "as the work of" not in first and second == f"tree     {'2' * 12}, which was checked"


def test_what_waits_says_its_place_who_paused_the_train_and_with_whom_it_is_checked() -> None:
    car = Car(commit="d" * 40, on="e" * 40, orders=("a", "b"), tree="f" * 40)
    paused = Note(by="ann", what="a freeze", at=1.0)
    record = TrainRecord(repository="r", branch="main", queue=(change("a"), change("b")), row=(car,), paused=paused)
    lines = explaining._waiting(record, "b")
    assert lines[0] == "waits    2 of 2, the oldest first" and lines[1] == "paused   by ann: a freeze"
    assert lines[2] == f"car      {'d' * 12} on {'e' * 12}, together with a: not checked yet"


def test_a_car_says_who_else_is_in_it_and_what_its_check_said() -> None:
    def said(**car: object) -> list[str]:
        made = Car(**{"commit": "d" * 40, "on": "e" * 40, "tree": "f" * 40, **car})  # type: ignore[arg-type]
        rows = {"apart" if made.apart else "row": (made,)}
        return explaining._waiting(TrainRecord(repository="r", branch="main", queue=(change("a"),), **rows), "a")[1:]  # type: ignore[arg-type]

    begin = f"car      {'d' * 12} on {'e' * 12}"
    assert said(orders=("a",), verdict="red") == [f"{begin}, alone: red"]
    assert said(orders=("b", "a", "c")) == [f"{begin}, together with b, c: not checked yet"]
    assert said(orders=("a", "b"), apart=True) == [f"{begin}, alone: not checked yet"]
    assert said(orders=("b",)) == []


def test_what_was_in_a_red_car_or_sent_back_says_so() -> None:
    queue = (change("a", alone="must", tries=2, first="z"),)
    lines = explaining._waiting(TrainRecord(repository="r", branch="main", queue=queue), "a")
    assert lines[1:] == [
        "alone    it was in a red car, so it is checked alone first",
        "tries    2: it is z, after it was sent back",
    ]


def test_of_a_long_output_the_end_is_shown() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    lines = explaining._left_out(LeftOut(order="a", kind="red", why="its check failed twice", at=1.0, output=output))
    assert lines[0] == "left out its check failed twice" and len(lines) == 1 + explaining.LINES
    assert lines[-1].strip() == "line 99"
