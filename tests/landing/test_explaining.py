"""Where the work of an order is, in lines for a person; by command in tests/cli/test_land.py."""

import pytest
from msgspec.structs import replace

from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import changes, queue, views
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Note, Order
from treadle.wire.fleet.train import (
    Car,
    LandedRecord,
    LandingIntent,
    LeftOut,
    QueuedChange,
    ReturnedChange,
    TrainRecord,
)


def change(name: str, **more: object) -> QueuedChange:
    return QueuedChange(order=name, commit="c" * 40, base="b", at=1.0, **more)  # type: ignore[arg-type]


PROOF = LandedRecord(order="a", train="t", branch="main", commit="1" * 40, tree="2" * 40, seq=1, at=123456.0)
BACK = ReturnedChange(order="a2", first="a", commit="c", kind="red", why="its check failed twice", at=0.5)


async def test_what_became_of_an_order_is_told_in_a_few_words(bus: Bus) -> None:
    await bus.put("landed.a.t", encode(PROOF))
    out = LeftOut(order="a", kind="red", why="it was red", at=1.0)

    async def fate(order: str = "a", train: str = "t", **fields: object) -> str:
        return await views.fate(bus, train, TrainRecord(repository="r", branch="main", **fields), order)  # type: ignore[arg-type]

    assert await fate() == "landed as " + "1" * 10
    assert await fate("b") == await fate(train="other") == "not here"
    assert await fate(queue=(change("b"), change("a"))) == "waits"
    assert await fate(queue=(change("b"),), left_out=(replace(out, order="b"),)) == "landed as " + "1" * 10
    assert await fate(queue=(change("h", first="a"),)) == "waits, after it was sent back"
    assert await fate(left_out=(replace(out, kind="there", why="the branch has it"),)) == "there: the branch has it"
    assert await fate(left_out=(replace(out, why="before"), out)) == "left out: it was red"
    assert await fate(left_out=(out,), queue=(change("a"),)) == "waits", "it was queued again"
    assert await fate(back=(BACK,), left_out=(out,)) == "waits for help: its check failed twice", "no one helps yet"
    helped = {"author": "sent back to its author", "reconciler": "given to a reconciler", "person": "asks a person"}
    for to, words in helped.items():
        entry = replace(BACK, to=to, by="h")
        other = replace(BACK, order="x", first="y", by="z", to="author")
        for name in ("a", "a2"):
            assert await fate(name, back=(other, entry)) == f"{words} as h: its check failed twice"


async def test_each_train_that_knows_an_order_says_what_it_knows_and_all_are_told_in_numbers(bus: Bus) -> None:
    await bus.put("order.h", encode(Order(id="h", state="asking", changed=1.0)))
    helped = replace(BACK, order="helped", first="helped", to="author", by="h", output="one\ntwo", tried=("before",))
    asked = replace(helped, order="asked", first="asked", to="person", output="", tried=())
    unhelped = replace(BACK, order="unhelped", first="unhelped")
    out = tuple(LeftOut(order="out", kind="red", why=why, at=1.0) for why in ("first", "last"))
    record = TrainRecord(
        repository="/r",
        branch="main",
        queue=(change("b"), change("w2", first="w", tries=1)),
        back=(helped, asked, unhelped),
        left_out=out,
        landed=4,
        paused=Note(by="ann", what="a freeze", at=1.0),
    )
    await bus.put("train.t", encode(record))
    await bus.put("train.u", encode(TrainRecord(repository="/q", branch="release", queue=(change("far"),))))
    await bus.put("train.v", encode(TrainRecord(repository="/s", branch="empty")))
    await bus.put("landed.a.t", encode(PROOF))

    async def lines(order: str) -> list[str]:
        (found,) = await views.explained(bus, order)
        assert found["train"] == "t" and found["lines"][0] == f"{order} and main of /r"
        return list(found["lines"][1:])

    assert await views.explained(bus, "unknown") == []
    assert await lines("a") == views._landed_lines(PROOF)
    assert (await lines("w"))[0] == "waits    2 of 2, the oldest first; it waits, after it was sent back"
    assert (await lines("b"))[0] == "waits    1 of 2, the oldest first; it waits"
    with_author = ["back     its check failed twice", "with     author: h is asking", "tried    before"]
    assert await lines("helped") == [*with_author, "         one", "         two"]
    asks = "asks     treadle fleet answer h allow --text '...', or deny"
    assert await lines("asked") == [with_author[0], "with     person: h is asking", asks]
    assert await lines("unhelped") == [with_author[0], "waits    for help, while another is helped there"]
    assert await lines("out") == ["left out last"]
    (far,) = await views.explained(bus, "far")
    assert far["train"] == "u" and far["lines"][0] == "far and release of /q" and far["waits"] == [change("far")]
    (found,) = await views.explained(bus, "out")
    assert (found["landed"], found["back"], found["left_out"], found["waits"]) == (None, [], [*out], [])
    one, two, three = await views.standing(bus)
    assert one == {
        "train": "t",
        "branch": "main",
        "repository": "/r",
        "waiting": 2,
        "oldest": 0.5,
        "back": 2,
        "asking": 1,
        "landed": 4,
        "paused": "a freeze",
        "delayed": "",
    }
    assert (two["oldest"], two["back"], two["asking"], two["paused"]) == (1.0, 0, 0, "")
    assert three["oldest"] is None


NOT_IN_A_TRAIN = [
    ("running", {}, "it is running: only finished work lands"),
    ("failed", {}, "it has failed, so it has nothing to land"),
    ("cancelled", {"commit": "c"}, "it was cancelled, so it has nothing to land"),
    ("done", {}, "it changed nothing, so there is nothing to land"),
    ("done", {"commit": "c", "merged": "1" * 40}, "its work is on a branch already, as 111111111111"),
    ("done", {"commit": "c", "not_landed": "no such branch"}, "it did not land: no such branch"),
    ("done", {"commit": "c"}, "it is in no train: `treadle land a` lands it"),
]


@pytest.mark.parametrize(("state", "result", "told"), NOT_IN_A_TRAIN)
async def test_why_an_order_is_in_no_train_is_told_as_it_is(
    bus: Bus, state: str, result: dict[str, object], told: str
) -> None:
    await bus.put("order.a", encode(Order(id="a", state=state, changed=1.0, result=result)))  # type: ignore[arg-type]
    assert await views.not_in_a_train(bus, "a") == told


async def test_what_has_ended_a_moment_ago_lands_by_itself(bus: Bus) -> None:
    await bus.put("order.a", encode(Order(id="a", state="done", changed=1.0, result={"commit": "c"})))
    await bus.put("spec.a", encode(Spec(id="a", task="t", land="main")))
    assert await views.not_in_a_train(bus, "a") == "it lands on main by itself, and has not been taken up yet"


def test_what_is_helped_queued_again_or_on_the_branch_is_not_left_out() -> None:
    outs = tuple(LeftOut(order=name, kind="red", why="w", at=1.0) for name in ("a", "q", "out"))
    there = LeftOut(order="there", kind="there", why="w", at=1.0)
    record = TrainRecord(
        repository="/r", branch="main", queue=(change("q"),), back=(replace(BACK, by="h"),), left_out=(*outs, there)
    )

    def states(train: TrainRecord) -> dict[str, str]:
        return {each.order: each.state for each in changes.each(train)}

    assert states(record) == {"a": "back", "q": "waiting", "out": "left out", "there": "landed"}
    assert set(changes.table(record)) == {"a", "a2", "h", "q", "out", "there"}, "by every name that it goes by"
    helped = queue.joined(record, change("h"))
    assert states(helped) == {"a": "waiting", "q": "waiting", "out": "left out", "there": "landed"}
    assert [each.order for each in helped.left_out] == ["q", "out", "there"], "once it lands it was never left out"
    car = Car(orders=("h",), on="b", commit="k", tree="t")
    for fields, state in (
        ({"row": (car,)}, "built"),
        ({"apart": (replace(car, apart=True),)}, "apart"),
        ({"landing": LandingIntent(old="b", new="k", tree="t", orders=("h",))}, "landing"),
        ({"queue": (change("h", first="a", blocked_on="k"),)}, "blocked"),
        ({"queue": (), "back": (replace(BACK, by="p", to="person"),)}, "asking"),
    ):
        assert states(replace(helped, **fields))["a"] == state  # type: ignore[arg-type]
