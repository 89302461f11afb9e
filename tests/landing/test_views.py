"""A train as people see it: from its record, the proofs of what landed, and what is known of the orders."""

from treadle.landing.views import SHOWN, _view
from treadle.wire.fleet.records import Order, Used
from treadle.wire.fleet.train import LandedRecord, LeftOut, QueuedChange, TrainRecord


def order(name: str, **fields: object) -> Order:
    return Order(id=name, state="done", changed=1.0, title=f"Title of {name}", agent="codex", **fields)  # type: ignore[arg-type]


PROOF = LandedRecord(order="a", train="t", branch="main", commit="c" * 40, tree="d" * 40, seq=3, at=5.0, verify="make")
OUT = LeftOut(order="b", kind="red", why="its check failed twice", at=6.0)


def test_a_landing_has_its_proof_and_what_its_order_used() -> None:
    record = TrainRecord(repository="r", branch="main", red=1.0, seen=4.0)
    view = _view("t", record, [PROOF], [], {"a": order("a", used=Used(input_tokens=7), project="goal")})
    (row,) = view.history
    assert (row.order, row.commit, row.verify, row.title, row.goal) == ("a", "c" * 40, "make", "Title of a", "goal")
    assert row.used == Used(input_tokens=7) and view.reds == 0.25 and view.oldest is None


def test_an_order_that_is_no_longer_kept_has_landed_all_the_same_and_its_cost_is_unknown() -> None:
    view = _view("t", TrainRecord(repository="r", branch="main"), [PROOF], [OUT], {})
    assert view.history[0].used is None and view.history[0].title == ""
    assert (view.left_out[0].why, view.left_out[0].next) == (OUT.why, "")


def test_what_was_left_out_names_the_order_that_does_it_over() -> None:
    orders = {"b": order("b", retried_as="c"), "c": order("c")}
    (row,) = _view("t", TrainRecord(repository="r", branch="main"), [], [OUT], orders).left_out
    assert (row.next, row.next_state, row.next_agent) == ("c", "done", "codex")


def test_the_oldest_that_waits_is_the_trains_age() -> None:
    queue = tuple(QueuedChange(order=name, commit="c", base="b", at=at) for name, at in (("x", 9.0), ("y", 4.0)))
    view = _view("t", TrainRecord(repository="r", branch="main", queue=queue), [], [], {})
    assert view.oldest == 4.0 and SHOWN == 50
