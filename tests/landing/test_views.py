"""A train as people see it: from its record, the proofs of what landed, and what is known of the orders."""

import msgspec
import pytest

from treadle.errors import LocalError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import views
from treadle.landing.views import SHOWN, LeftOutRow, _view
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import (
    Boarding,
    LandedRecord,
    LeftOut,
    TrainRecord,
)


def order(name: str, **fields: object) -> Order:
    given = {"state": "done", "agent": "codex", **fields}
    return Order(id=name, changed=1.0, title=f"Title of {name}", **given)  # type: ignore[arg-type]


PROOF = LandedRecord(
    order="a", train="t", branch="main", commit="c" * 40, tree="d" * 40, seq=3, at=5.0, verify="make", receipt="ab"
)
OUT = LeftOut(order="b", kind="red", why="its check failed twice", at=6.0)
PLAIN = TrainRecord(repository="r", branch="main")


def test_an_order_that_is_no_longer_kept_has_landed_all_the_same_and_its_cost_is_unknown() -> None:
    view = _view("t", PLAIN, [PROOF], [OUT], {})
    (row,) = view.history
    assert (row.used, row.title, row.goal, row.agent) == (None, "", "", "") and row.commit == PROOF.commit
    assert view.left_out == (LeftOutRow(**msgspec.structs.asdict(OUT)),)


async def test_every_train_has_its_last_landings_and_what_it_left_out_latest_first(bus: Bus) -> None:
    many = tuple(LeftOut(order=f"o{number}", kind="red", why="red", at=number) for number in range(SHOWN + 1))
    await bus.put("train.one", encode(PLAIN))
    await bus.put("train.two", encode(msgspec.structs.replace(PLAIN, branch="release", left_out=(*many, OUT))))
    for name in ("a", "e"):
        await bus.put(f"landed.{name}.two", encode(msgspec.structs.replace(PROOF, order=name)))
    for each in (order("a"), order("b", retried_as="d"), order("d", state="running"), order("o2")):
        await bus.put(f"order.{each.id}", encode(each))
    one, two = await views.views(bus)
    assert (one.name, one.branch, one.history, one.left_out) == ("one", "main", (), ())
    assert (two.name, two.branch) == ("two", "release")
    assert [(row.order, row.title) for row in two.history] == [("e", ""), ("a", "Title of a")]
    assert [row.order for row in two.left_out] == ["b", *(f"o{number}" for number in range(SHOWN, 1, -1))]
    assert (two.left_out[0].next, two.left_out[0].next_state) == ("d", "running")
    assert two.left_out[-1].title == "Title of o2" and SHOWN == 50


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
    assert mark == Boarding(order="one", root="/r", branch="main", verify="make", setup="make deps")
    assert b"is to land on main" in note and b'"ann"' in note and b'"one"' in note
    mark, _ = await marked("one", branch="release", verify="true")
    assert (mark.branch, mark.verify) == ("release", "true")
    mark, note = await marked("bare")
    assert (mark.branch, mark.verify) == ("", "") and b"is to land on the branch that is checked out" in note
    with pytest.raises(LocalError, match="the order busy is running, so it has nothing to land"):
        await views.ask_to_land(bus, "busy")
    for name in ("rootless", "empty"):
        with pytest.raises(LocalError, match=f"the order {name} has left no commit of a repository"):
            await views.ask_to_land(bus, name)
    assert sorted(await bus.keys("boards.*")) == ["boards.bare", "boards.one"]
