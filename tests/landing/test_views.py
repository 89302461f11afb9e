"""A train as people see it: from its record, the proofs of what landed, and what is known of the orders."""

import msgspec
import pytest

from treadle.errors import LocalError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import changes, views
from treadle.landing.views import SHOWN
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import (
    Boarding,
    LandedRecord,
    LeftOut,
    QueuedChange,
    TrainRecord,
)


def order(name: str, **fields: object) -> Order:
    given = {"state": "done", "agent": "codex", **fields}
    return Order(id=name, changed=1.0, title=f"Title of {name}", **given)  # type: ignore[arg-type]


PROOF = LandedRecord(
    order="a", train="t", branch="main", commit="c" * 40, tree="d" * 40, seq=3, at=5.0, verify="make", receipt="ab"
)
PLAIN = TrainRecord(repository="r", branch="main")


async def test_every_train_has_its_last_landings_and_its_changes_and_an_order_that_is_no_longer_kept_counts(
    bus: Bus,
) -> None:
    many = tuple(LeftOut(order=f"o{number}", kind="red", why="red", at=number) for number in range(SHOWN + 1))
    there = LeftOut(order="there", kind="there", why="w", at=1.0)
    waits = QueuedChange(order="h", first="w", commit="c", at=2.0, title="t")
    filled = msgspec.structs.replace(PLAIN, branch="release", left_out=(*many, there), queue=(waits,))
    await bus.put("train.one", encode(PLAIN))
    await bus.put("train.two", encode(filled))
    for name in ("a", "e"):
        await bus.put(f"landed.{name}.two", encode(msgspec.structs.replace(PROOF, order=name)))
    for each in (order("a"), order("o2"), order("w")):
        await bus.put(f"order.{each.id}", encode(each))
    one, two = await views.views(bus)
    assert (one.name, one.branch, one.history, one.changes) == ("one", "main", (), ())
    assert [(row.order, row.title, row.used is None) for row in two.history] == [
        ("e", "", True),
        ("a", "Title of a", False),
    ]
    first, *left = two.changes
    assert (first.order, first.state, first.words) == ("w", "waiting", "waits, after it was sent back")
    assert [row.order for row in left] == [f"o{number}" for number in range(1, SHOWN + 1)]
    assert left[1].title == "Title of o2" and left[1].words == "left out: red"


def test_a_task_has_one_state_from_its_submission_until_it_has_landed() -> None:
    train = msgspec.structs.replace(PLAIN, queue=(QueuedChange(order="a", commit="c", at=1.0),))
    assert views.standing_of(order("a"), changes.table(train)) == ("waiting", "waits")
    for fields, told in (
        ({"state": "failed", "why": "no"}, ("failed", "no")),
        ({"result": {"landed": {"commit": "c"}, "merged": "c"}}, ("landed", "")),
        ({"result": {"not_landed": "red"}}, ("left out", "red")),
        ({"result": {"not_landed": "red", "merged": "c"}}, ("landed", "")),
    ):
        assert views.standing_of(order("b", **fields), changes.table(train)) == told


async def test_a_finished_order_is_marked_to_land_and_that_is_noted(bus: Bus) -> None:
    notes = await bus.client.subscribe("fleet.in.>")
    kept = {"root": "/r", "land": "main", "verify": "make", "setup": "make deps"}
    for name, fields in {"one": kept, "bare": {"root": "/r"}, "rootless": {}, "busy": kept, "empty": kept}.items():
        await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", **fields)))  # type: ignore[arg-type]
        result = {"commit": "c" * 40} if name != "empty" else {}
        made = order(name, state="running" if name == "busy" else "done", result=result)
        await bus.put(f"order.{name}", encode(made))

    async def marked(name: str, **asked: str) -> tuple[Boarding, bytes]:
        await views.ask_to_land(bus, name, **asked)
        entry = await bus.get(f"boards.{name}")
        assert entry is not None
        return msgspec.json.decode(entry.value, type=Boarding), (await notes.next_msg(timeout=60)).data

    mark, note = await marked("one", by="ann")
    assert mark == Boarding(order="one", root="/r", branch="main", verify="make", setup="make deps", again=True)
    assert b"is to land on main" in note and b'"ann"' in note and b'"one"' in note
    mark, _ = await marked("one", branch="release", verify="true")
    assert (mark.branch, mark.verify) == ("release", "true")
    mark, note = await marked("bare")
    assert (mark.branch, mark.verify) == ("", "") and b"is to land on the branch that is checked out" in note
    with pytest.raises(LocalError, match="the order busy is running, so it has nothing to land"):
        await views.ask_to_land(bus, "busy")
    for name in ("rootless", "empty"):
        with pytest.raises(LocalError, match=f"the order {name} has no commit to land"):
            await views.ask_to_land(bus, name)
    assert sorted(await bus.keys("boards.*")) == ["boards.bare", "boards.one"]
