"""Where the work of an order is, in lines for a person; by command in tests/cli/test_land.py."""

from msgspec.structs import replace

from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import views
from treadle.wire.fleet.records import Note, Order
from treadle.wire.fleet.train import Car, LandedRecord, LeftOut, QueuedChange, ReturnedChange, TrainRecord


def change(name: str, **more: object) -> QueuedChange:
    return QueuedChange(order=name, commit="c" * 40, base="b", at=1.0, **more)  # type: ignore[arg-type]


PROOF = LandedRecord(order="a", train="t", branch="main", commit="1" * 40, tree="2" * 40, seq=1, at=123456.0)
BACK = ReturnedChange(order="a2", first="a", commit="c", kind="red", why="its check failed twice", at=0.5)


def test_what_landed_is_told_by_its_commit_and_the_tree_that_was_checked() -> None:
    assert views._landed_lines(PROOF) == [
        f"landed   as {'1' * 12} at 1970-01-02 10:17:36",
        f"tree     {'2' * 12}, which was checked",
    ]
    assert views._landed_lines(replace(PROOF, by="h"))[0].endswith(" 10:17:36, as the work of h")


def test_what_waits_says_its_place_who_paused_the_train_and_with_whom_it_is_checked() -> None:
    car = Car(commit="d" * 40, on="e" * 40, orders=("a", "b"), tree="f" * 40)
    paused = Note(by="ann", what="a freeze", at=1.0)
    record = TrainRecord(repository="r", branch="main", queue=(change("a"), change("b")), row=(car,), paused=paused)
    lines = views._waiting(record, "b")
    assert lines[0] == "waits    2 of 2, the oldest first" and lines[1].startswith("paused   by ann since ")
    assert lines[2] == f"car      {'d' * 12} on {'e' * 12}, together with a: not checked yet"


def test_a_car_says_who_else_is_in_it_and_what_its_check_said() -> None:
    def said(**car: object) -> list[str]:
        made = Car(**{"commit": "d" * 40, "on": "e" * 40, "tree": "f" * 40, **car})  # type: ignore[arg-type]
        rows = {"apart" if made.apart else "row": (made,)}
        return views._waiting(TrainRecord(repository="r", branch="main", queue=(change("a"),), **rows), "a")[1:]  # type: ignore[arg-type]

    begin = f"car      {'d' * 12} on {'e' * 12}"
    assert said(orders=("a",), verdict="red") == [f"{begin}, alone: red"]
    assert said(orders=("b", "a", "c")) == [f"{begin}, together with b, c: not checked yet"]
    assert said(orders=("a", "b"), apart=True) == [f"{begin}, alone: not checked yet"]
    assert said(orders=("b",)) == []


def test_what_was_in_a_red_car_or_sent_back_says_so() -> None:
    queue = (change("a", alone="must", tries=2, first="z"),)
    lines = views._waiting(TrainRecord(repository="r", branch="main", queue=queue), "a")
    assert lines[1:] == [
        "alone    it was in a red car, so it is checked alone first",
        "tries    2: it is z, after it was sent back",
    ]


def test_of_a_long_output_the_end_is_shown() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    lines = views._left_out_lines(LeftOut(order="a", kind="red", why="its check failed twice", at=1.0, output=output))
    assert lines[0] == "left out its check failed twice" and len(lines) == 1 + views.LINES
    assert lines[-1].strip() == "line 99"


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
    assert await fate(left_out=(replace(out, why="before"), out), queue=(change("a"),)) == "left out: it was red"
    assert await fate(back=(BACK,), left_out=(out,)) == "left out: it was red", "no one helps yet"
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
    assert await lines("w") == views._waiting(record, "w2") and (await lines("b"))[0].startswith("waits    1 of 2")
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
