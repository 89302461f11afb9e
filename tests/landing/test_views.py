"""A train as people see it: from its record, the proofs of what landed, and what is known of the orders."""

import msgspec
import pytest

from treadle.errors import LocalError, NotFound
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import views
from treadle.landing.views import SHOWN, LandedRow, LeftOutRow, TrainView, _view
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Note, Order, Used
from treadle.wire.fleet.train import (
    Boarding,
    Car,
    LandedRecord,
    LandingIntent,
    LeftOut,
    QueuedChange,
    ReturnedChange,
    TrainRecord,
    TrainRequest,
)


def order(name: str, **fields: object) -> Order:
    given = {"state": "done", "agent": "codex", **fields}
    return Order(id=name, changed=1.0, title=f"Title of {name}", **given)  # type: ignore[arg-type]


PROOF = LandedRecord(
    order="a", train="t", branch="main", commit="c" * 40, tree="d" * 40, seq=3, at=5.0, verify="make", receipt="ab"
)
OUT = LeftOut(order="b", kind="red", why="its check failed twice", at=6.0)
PLAIN = TrainRecord(repository="r", branch="main")


def test_a_landing_has_its_proof_and_what_its_order_used() -> None:
    record = TrainRecord(repository="r", branch="main", red=1.0, seen=4.0)
    view = _view("t", record, [PROOF], [], {"a": order("a", used=Used(input_tokens=7), project="goal")})
    assert view.history == (
        LandedRow(
            order="a",
            seq=3,
            commit="c" * 40,
            at=5.0,
            title="Title of a",
            goal="goal",
            agent="codex",
            verify="make",
            receipt="ab",
            used=Used(input_tokens=7),
        ),
    )
    assert view.reds == 0.25 and view.oldest is None and view.landing == ()


def test_an_order_that_is_no_longer_kept_has_landed_all_the_same_and_its_cost_is_unknown() -> None:
    view = _view("t", PLAIN, [PROOF], [OUT], {})
    (row,) = view.history
    assert (row.used, row.title, row.goal, row.agent) == (None, "", "", "") and row.commit == PROOF.commit
    assert view.left_out == (LeftOutRow(**msgspec.structs.asdict(OUT)),)


def test_what_was_left_out_names_the_order_that_does_it_over() -> None:
    orders = {"b": order("b", retried_as="c"), "c": order("c", state="running", agent="claude")}
    (row,) = _view("t", PLAIN, [], [OUT], orders).left_out
    assert (row.next, row.next_state, row.next_agent) == ("c", "running", "claude")
    assert (row.title, row.agent, row.why) == ("Title of b", "codex", OUT.why)
    (row,) = _view("t", PLAIN, [], [OUT], {"b": order("b")}).left_out
    assert (row.title, row.next, row.next_state, row.next_agent) == ("Title of b", "", "", "")


def test_all_that_a_trains_record_has_is_shown_and_the_oldest_that_waits_is_its_age() -> None:
    queue = tuple(QueuedChange(order=name, commit="c", base="b", at=at) for name, at in (("x", 9.0), ("y", 4.0)))
    fields = {
        "repository": "/r",
        "branch": "main",
        "verify": "make",
        "slots": 3,
        "tip": "1" * 40,
        "landed": 4,
        "checks": 5,
        "flaky": 6,
        "paused": Note(at=1.0, by="ann", what="a freeze"),
        "row": (Car(orders=("x",), on="1", commit="2", tree="3"),),
        "apart": (Car(orders=("y",), on="1", commit="4", tree="5", apart=True),),
        "queue": queue,
        "back": (ReturnedChange(order="z", first="z", commit="6", kind="red", why="red", at=2.0),),
    }
    intent = LandingIntent(old="1", new="2", tree="3", orders=("x", "w"))
    view = _view("t", TrainRecord(**fields, landing=intent), [], [], {})  # type: ignore[arg-type]
    assert view == TrainView(name="t", reds=0.1, oldest=4.0, landing=("x", "w"), **fields)  # type: ignore[arg-type]


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


async def test_a_pause_is_left_for_the_conductor_of_a_train_that_is_there(bus: Bus) -> None:
    await bus.put("train.one", encode(PLAIN))
    await views.request_pause(bus, "one", "a freeze", "ann")
    entry = await bus.get("steers.one")
    assert entry is not None
    assert msgspec.json.decode(entry.value, type=TrainRequest) == TrainRequest(by="ann", pause="a freeze")
    with pytest.raises(NotFound, match="there is no train 'two'") as error:
        await views.request_pause(bus, "two", "", "ann")
    assert error.value.hint == "`treadle land ls` lists them"
