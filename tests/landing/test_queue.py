"""What a train decides, held against a made world in which the truth about every change is known."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.landing.simulated import Simulation
from treadle.landing import changes, queue
from treadle.landing.queue import BuildCar, CheckCar, LandCar
from treadle.wire.fleet.records import Note
from treadle.wire.fleet.train import Car, LandingIntent, LeftOut, QueuedChange, TrainRecord

ROOT = "root"


class World:
    """A branch whose commits are known by what they contain. A commit is red if it holds a bad change or a bad pair."""

    def __init__(
        self,
        count: int,
        *,
        bad: Iterable[int] = (),
        pairs: Iterable[tuple[int, int]] = (),
        conflicts: Iterable[tuple[int, int]] = (),
        flaky: float = 0.0,
        slots: int = 2,
        seed: int = 0,
        late: int = 0,
    ) -> None:
        """The last `late` of the changes come while another step is being taken."""
        self.bad = {f"o{each}" for each in bad}
        self.pairs = [{f"o{a}", f"o{b}"} for a, b in pairs if a != b]
        self.conflicts = [{f"o{a}", f"o{b}"} for a, b in conflicts if a != b]
        self.flaky = flaky
        self.rng = random.Random(seed)
        self.commits: dict[str, frozenset[str]] = {ROOT: frozenset()}
        self.parents: dict[str, str] = {}
        self.branch = ROOT
        self.landed: list[str] = []
        self.runs = 0
        self.train = TrainRecord(repository="r", branch="main", slots=slots, tip=ROOT)
        made = [QueuedChange(order=f"o{number}", commit=f"c{number}", at=float(number)) for number in range(count)]
        self.coming = made[max(0, count - late) :]
        for change in made[: max(0, count - late)]:
            self.train = queue.joined(self.train, change)

    @property
    def train(self) -> TrainRecord:
        return self._train

    @train.setter
    def train(self, after: TrainRecord) -> None:
        """Every change goes only where the table lets it."""
        before = changes.table(self._train) if hasattr(self, "_train") else {}
        now = changes.table(after)
        for name, change in before.items():
            state = now[name].state if name in now else "landed"
            assert state == change.state or state in changes.CHANGE[change.state], (name, change.state, state)
        self._train = after

    def red(self, commit: str) -> bool:
        inside = self.commits[commit]
        return bool(self.bad & inside) or any(pair <= inside for pair in self.pairs)

    def contains(self, commit: str) -> bool:
        at: str | None = self.branch
        while at is not None and at != commit:
            at = self.parents.get(at)
        return at == commit

    def build(self, step: BuildCar) -> None:
        def clash(order: str, inside: frozenset[str]) -> bool:
            return any(order in pair and pair & (inside - {order}) for pair in self.conflicts)

        inside, members, blocked = self.commits[step.on], [], []
        for order in step.orders:
            if clash(order, self.commits[self.train.tip]):
                out = LeftOut(order=order, kind="conflict", why="conflict", at=0.0)
                self.train = queue.left_out(self.train, out)
            elif clash(order, inside):
                blocked.append(order)
            else:
                members.append(order)
                inside |= {order}
        car = None
        if members:
            name = f"{step.on}+{','.join(members)}"
            self.commits[name], self.parents[name] = inside, step.on
            car = Car(orders=tuple(members), on=step.on, commit=name, tree=name, apart=step.apart)
        self.train = queue.built(self.train, car, blocked, step.on)

    def check(self, step: CheckCar) -> None:
        self.runs += 1
        green = not self.red(step.car.commit) and self.rng.random() >= self.flaky
        self.train = queue.judged(self.train, step.car.commit, green, 0.0, "" if green else "it says why")

    def land(self, step: LandCar) -> None:
        self.train = queue.started_landing(self.train)
        intent = self.train.landing
        assert intent is not None
        if self.branch == intent.old:
            self.branch = intent.new
            self.landed += intent.orders
        self.look()

    def look(self) -> None:
        """As after a crash: the record is held against the branch."""
        known = {ROOT, *self.commits}
        self.train = queue.recovered(self.train, self.branch, {each: self.contains(each) for each in known}, 0.0)

    def person(self, number: int) -> None:
        name = f"{self.branch}~p{number}"
        self.commits[name], self.parents[name] = self.commits[self.branch] | {f"p{number}"}, self.branch
        self.branch = name

    def run(self, pushes: int = 0) -> "World":
        for number in range(3000):
            before, found = self.train, queue.steps(self.train)
            if not found and not self.coming:
                return self
            step = self.rng.choice(found) if found else None
            if step is None:
                pass
            elif isinstance(step, BuildCar):
                self.build(step)
            elif isinstance(step, CheckCar):
                self.check(step)
            else:
                self.land(step)
            assert not self.red(self.branch), "the branch is red"
            if self.coming and (step is None or self.rng.random() < 0.5):
                newer = queue.joined(before, self.coming.pop(0))
                merged = queue.rejoined(before, newer, self.train)
                assert merged is not None
                self.train = merged
            if number < pushes:
                self.person(number)
                self.look()
        raise AssertionError("it never ends")

    @property
    def out(self) -> dict[str, str]:
        return {each.order: each.kind for each in self.train.left_out}


def test_good_changes_all_land_in_the_order_in_which_they_came_when_one_goes_at_a_time() -> None:
    assert World(5, slots=1).run().landed == [f"o{number}" for number in range(5)]


def test_a_bad_change_is_checked_twice_and_left_out_with_what_its_check_said() -> None:
    world = World(3, bad=[1]).run()
    (out,) = world.train.left_out
    assert sorted(world.landed) == ["o0", "o2"] and (out.order, out.kind, out.output) == ("o1", "red", "it says why")


def test_of_two_that_are_green_alone_and_red_together_one_lands() -> None:
    world = World(4, pairs=[(0, 2)]).run()
    assert len(world.landed) == 3 and len(world.out) == 1 and set(world.out) < {"o0", "o2"}


def test_what_conflicts_with_the_branch_is_left_out_and_what_conflicts_with_the_row_waits() -> None:
    world = World(3, conflicts=[(0, 1)]).run()
    assert len(world.landed) == 2 and list(world.out.values()) == ["conflict"]


def test_a_check_that_fails_once_costs_one_more_run_and_throws_nothing_out() -> None:
    class Once(World):
        def check(self, step: CheckCar) -> None:
            green = step.car.reds > 0 or step.car.orders != ("o0",)
            self.train = queue.judged(self.train, step.car.commit, green, 0.0, "FAILED test_a.py::test_b - no")

    world = Once(1).run()
    assert world.landed == ["o0"] and world.train.flaky == 1 and world.train.checks == 2


def test_the_serial_policy_checks_one_change_at_a_time_on_the_tip() -> None:
    class OneByOne(World):
        def check(self, step: CheckCar) -> None:
            assert len(step.car.orders) == 1 and step.car.on == self.branch and len(self.train.row) == 1
            super().check(step)

    world = OneByOne(20, bad=[3, 4, 5, 6, 7], slots=4)
    world.train = replace(world.train, policy="serial")
    world.run()
    assert len(world.landed) == 15 and world.train.checks == 15 + 2 * 5


def test_a_red_car_of_several_leaves_the_row_and_its_good_members_land() -> None:
    world = World(16, bad=[7], slots=1)
    (build,) = queue.steps(world.train)
    assert isinstance(build, BuildCar) and len(build.orders) == 3, "0.35 reds expected at 1 in 10"
    world.run()
    assert len(world.landed) == 15 and world.out == {"o7": "red"}


def test_while_many_are_red_every_change_is_first_checked_alone() -> None:
    train = replace(World(4, slots=4).train, red=3.0, seen=10.0)
    (step,) = queue.steps(train)
    assert step == BuildCar(("o0",), ROOT, apart=True)
    (step,) = queue.steps(replace(train, slots=3))
    assert step == BuildCar(("o0",), ROOT), "with few slots that would be no quicker than one after the other"


def test_a_bad_change_in_a_red_car_counts_as_one_red() -> None:
    world = World(16, bad=[1], slots=1).run()
    assert world.out == {"o1": "red"} and world.train.red == 2.0


@pytest.mark.parametrize(
    ("red", "slots", "gain", "most"), [(0.1, 2, 1.6, 1.5), (0.25, 2, 1.4, 2.1), (0.1, 4, 2.5, 1.8)]
)
def test_several_cars_at_once_land_more_per_hour_than_one_change_after_the_other(
    red: float, slots: int, gain: float, most: float
) -> None:
    """On a made clock, with checks that take longer than agents."""
    same = {"red": red, "slots": slots, "hot": 0.0, "check_seconds": 30.0}
    both = [
        [Simulation(60, policy=policy, seed=seed, **same).run() for seed in range(3)]  # type: ignore[arg-type]
        for policy in ("auto", "serial")
    ]
    auto, serial = [sum(each["landed per hour"] for each in runs) for runs in both]
    assert auto > gain * serial and all(each["landed"] == 60 for runs in both for each in runs)
    assert sum(each["checks per landed"] for each in both[0]) < 3 * most


def test_nothing_is_built_on_a_red_car() -> None:
    world = World(8, slots=3)
    cars = [Car(orders=(f"o{n}",), on=on, commit=f"k{n}", tree="t") for n, on in ((0, ROOT), (1, "k0"))]
    train = replace(world.train, row=(cars[0], replace(cars[1], verdict="red", reds=1)))
    assert queue.steps(train) == [CheckCar(cars[0])]


def test_only_the_first_car_on_the_tip_and_green_can_land() -> None:
    car = Car(orders=("o0",), on=ROOT, commit="k", tree="t", verdict="green")
    train = replace(World(1).train, row=(car,))
    for wrong in (replace(train, tip="else"), replace(train, row=(replace(car, verdict="red"),))):
        with pytest.raises(ValueError, match="only the first car"):
            queue.started_landing(wrong)
    landing = queue.started_landing(train)
    assert queue.steps(landing) == [] and landing.landing is not None


def test_a_verdict_counts_for_the_commit_it_names_and_no_other() -> None:
    car = Car(orders=("o0",), on=ROOT, commit="k2", tree="t")
    train = replace(World(1).train, row=(car,))
    assert queue.judged(train, "k1", True, 0.0).row == (car,)


def test_a_paused_train_does_nothing_new() -> None:
    world = World(2)
    paused = queue.recovered(replace(world.train, tip="gone"), ROOT, {ROOT: True}, 0.0)
    assert paused.paused is not None and "forced it back" in paused.paused.what and queue.steps(paused) == []


@pytest.mark.parametrize("where", ["before", "after", "elsewhere"])
def test_an_intent_is_carried_forward_recorded_or_dropped_by_where_the_branch_is(where: str) -> None:
    world = World(1)
    (build,) = queue.steps(world.train)
    assert isinstance(build, BuildCar)
    world.build(build)
    world.train = queue.judged(world.train, world.train.row[0].commit, True, 0.0)
    world.train = queue.started_landing(world.train)
    intent = world.train.landing
    assert intent is not None
    if where == "after":
        world.branch = intent.new
    elif where == "elsewhere":
        world.person(1)
    before = world.train
    world.look()
    if where == "before":
        assert world.train == before
    elif where == "after":
        assert world.train.landing is None and world.train.landed == 1 and world.train.queue == ()
    else:
        assert world.train.landing is None and world.train.landed == 0 and world.train.row == ()
        assert world.run().landed == ["o0"]


def test_an_order_that_comes_again_with_another_commit_replaces_the_first() -> None:
    world = World(2, slots=1)
    (build,) = queue.steps(world.train)
    assert isinstance(build, BuildCar)
    world.build(build)
    again = queue.joined(world.train, QueuedChange(order="o0", commit="new", at=9.0))
    assert [each.commit for each in again.queue] == ["c1", "new"] and again.row == ()
    assert queue.joined(again, QueuedChange(order="o0", commit="new", at=10.0)) is again


def test_what_was_decided_counts_though_work_was_queued_meanwhile_and_not_if_more_has_happened() -> None:
    world = World(2)
    before, (build, *_) = world.train, queue.steps(world.train)
    assert isinstance(build, BuildCar)
    world.build(build)
    newer = queue.joined(before, QueuedChange(order="late", commit="c", at=0.5))
    merged = queue.rejoined(before, newer, world.train)
    assert merged is not None and merged.row == world.train.row and [each.order for each in merged.queue][1] == "late"
    assert queue.rejoined(before, replace(newer, verify="another"), world.train) is None
    assert queue.rejoined(before, queue.removed(newer, ["o1"]), world.train) is None
    again = queue.joined(before, QueuedChange(order="o0", commit="new", at=9.0))
    merged = queue.rejoined(before, again, world.train)
    assert merged is not None and merged.row == (), "what was built of the old commit counts no more"


numbers = st.integers(0, 8)


@settings(max_examples=150)
@given(
    st.integers(1, 9),
    st.sets(numbers, max_size=4),
    st.sets(st.tuples(numbers, numbers), max_size=3),
    st.sets(st.tuples(numbers, numbers), max_size=3),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 4),
)
def test_in_every_world_the_branch_is_never_red_and_each_change_lands_once_or_is_left_out(
    count: int,
    bad: set[int],
    pairs: set[tuple[int, int]],
    conflicts: set[tuple[int, int]],
    slots: int,
    pushes: int,
    seed: int,
    flaky: float,
    late: int,
) -> None:
    world = World(count, bad=bad, pairs=pairs, conflicts=conflicts, slots=slots, seed=seed, flaky=flaky, late=late)
    world.run(pushes)
    everything = {f"o{number}" for number in range(count)}
    assert len(world.landed) == len(set(world.landed)) == world.train.landed
    assert set(world.landed) | set(world.out) == everything and not set(world.landed) & set(world.out)
    if not flaky:
        innocent = everything - world.bad - set().union(*world.pairs, *world.conflicts)
        assert innocent <= set(world.landed), "a good change was thrown out"


def change_of(name: str, **fields: Any) -> QueuedChange:
    return QueuedChange(**{"order": name, "commit": f"c-{name}", "at": 1.0, **fields})


def car_of(*orders: str, **fields: Any) -> Car:
    return Car(**{"orders": orders, "on": "0", "commit": f"car-{'-'.join(orders)}", "tree": "t", **fields})


PLAIN = TrainRecord(repository="r", branch="main", tip="0", verify="make")


def test_another_check_makes_earlier_verdicts_void_and_ends_the_lack_of_one() -> None:
    pause = Note(at=1.0, by="train", what="no check is set")
    queue_ = (change_of("a", alone="green"), change_of("b", alone="must"), change_of("c"))
    busy = replace(PLAIN, queue=queue_, row=(car_of("c"),), apart=(car_of("b", apart=True),), paused=pause, slots=4)
    same = queue.configured(busy, "", "", 0)
    assert same == busy == replace(queue.configured(busy, "make", "", 4), verify_by="")
    for made in (queue.configured(busy, "true", "", 7), queue.configured(busy, "", "make deps", 7)):
        assert (made.row, made.apart, made.slots, made.paused) == ((), (), 7, pause)
        assert [each.alone for each in made.queue] == ["must", "must", ""]
    assert (
        queue.configured(busy, "true", "s", 0).verify == "true" and queue.configured(busy, "true", "s", 0).setup == "s"
    )
    assert queue.configured(replace(busy, verify=""), "true", "", 0).paused is None
    assert queue.configured(replace(busy, verify="", paused=None), "true", "", 0).paused is None


@pytest.mark.parametrize(
    ("branch", "own", "expected"),
    [
        (("make", ""), ["make", ""], ["make"]),
        (("make", ""), ["./a", "./b", "./a"], ["make", "./a", "./b"]),
        (("", ""), ["./a", "./b"], ["./a", "./b"]),
        (("make", ""), ["make && ./a"], ["make && ./a"]),
        (("make", ""), ["make && ./a", "make && ./a && ./b"], ["make && ./a && ./b"]),
        (("make", ""), ["cd part && make", "./a && make"], ["make", "cd part && make", "./a && make"]),
        (("make", ""), ["make && ./a || true", "make && ./a;"], ["make", "make && ./a || true", "make && ./a;"]),
    ],
)
def test_a_car_must_pass_the_branchs_check_and_those_of_all_its_orders(
    branch: tuple[str, str], own: list[str], expected: list[str]
) -> None:
    changes = [replace(change_of(str(number)), verify=verify) for number, verify in enumerate(own)]
    held = replace(PLAIN, verify=branch[0], queue=(*changes, replace(change_of("other"), verify="./other")))
    found = queue.checks(held, [str(number) for number in range(len(own))])
    assert [each.verify for each in found] == expected


def test_a_forge_that_is_to_move_the_branch_ends_a_pause_of_the_trains_own() -> None:
    own, anns = Note(at=1.0, by="train", what="protected"), Note(at=1.0, by="ann", what="a freeze")
    made = queue.by_forge(replace(PLAIN, paused=own), "github", "TOKEN")
    assert (made.forge, made.forge_token, made.paused) == ("github", "TOKEN", None)
    made = queue.by_forge(replace(made, paused=anns), "", "")
    assert (made.forge, made.forge_token, made.paused) == ("github", "TOKEN", anns)
    assert queue.by_forge(PLAIN, "gitlab", "").paused is None


def test_what_a_forge_refuses_is_left_out_or_its_members_are_checked_alone() -> None:
    def landing(*orders: str) -> TrainRecord:
        head = car_of(*orders, verdict="green")
        intent = LandingIntent(old="0", new=head.commit, tree="t", orders=orders)
        return replace(PLAIN, queue=tuple(map(change_of, orders)), row=(head,), landing=intent, red=1.0, seen=10.0)

    with pytest.raises(ValueError, match="nothing was landing"):
        queue.refused_there(PLAIN, "why", "output", 5.0)
    with pytest.raises(ValueError, match="nothing was landing"):
        queue.moved(PLAIN, 5.0)
    one = queue.refused_there(landing("a"), "ci failed", "2 failed", 5.0)
    assert (one.landing, one.red, one.seen, one.queue, one.row) == (None, 2.0, 11.0, (), ())
    assert one.left_out == (LeftOut(order="a", kind="red", why="ci failed", at=5.0, output="2 failed", forge=True),)
    two = queue.refused_there(landing("a", "b"), "ci failed", "2 failed", 5.0)
    assert (two.landing, two.red, two.seen, two.left_out, two.row) == (None, 2.0, 11.0, (), ())
    assert [(each.order, each.alone) for each in two.queue] == [("a", "must"), ("b", "must")]


def test_a_car_holds_one_change_where_a_forge_judges_it_or_few_wait() -> None:
    many = tuple(change_of(f"o{number:02}", at=float(number)) for number in range(40))
    train = replace(PLAIN, queue=many, slots=2, red=0.1, seen=10.0)

    def size(record: TrainRecord) -> int:
        (step,) = queue.steps(record)
        assert isinstance(step, BuildCar) and not step.apart and step.on == "0"
        return len(step.orders)

    assert size(train) > 1 and size(replace(train, forge="github")) == 1
    assert size(replace(train, queue=many[:3])) == 1 and size(replace(train, queue=many[:4])) == 2
    assert size(replace(train, queue=many[:3], slots=1)) == 3 and size(replace(train, red=9.0, slots=1)) == 1
    assert size(replace(train, policy="serial")) == 1


@pytest.mark.parametrize(
    ("settings", "train", "order", "word", "agreed", "lacks"),
    [
        ("", "", "", "passed", "", ""),
        ("tested", "", "", "tested", "", ""),
        ("tested", "", "", "proven", "", ""),
        ("tested", "", "", "passed", "", "tested"),
        ("tested", "proven", "", "tested", "", "proven"),
        ("", "tested", "proven", "tested", "", "proven"),
        ("testd", "", "", "tested", "", "proven"),
        ("", "", "tested", "nothing", "", "tested"),
        ("proven", "", "", "passed", "passed", ""),
        ("proven", "", "", "tested", "passed", ""),
        ("proven", "", "", "nothing", "passed", "proven"),
        ("proven", "", "", "weak", "", "proven"),
    ],
)
def test_work_lands_by_itself_when_it_shows_the_most_that_anyone_requires_or_what_a_person_agreed_to(
    settings: str, train: str, order: str, word: str, agreed: str, lacks: str
) -> None:
    change = QueuedChange(order="a", commit="c", require=order, agreed=agreed)
    record = TrainRecord(repository="r", branch="main", require=train, queue=(change,))
    car = Car(orders=("a",), on="o", commit="c", tree="t")
    found = queue.too_little(record, car, word, queue.required(record, ["a"], settings))
    assert bool(found) == bool(lacks) and f"`{lacks}` is required" * bool(lacks) in found


def test_a_car_of_several_that_shows_too_little_is_taken_apart() -> None:
    pair = tuple(QueuedChange(order=name, commit=name) for name in "ab")
    car = Car(orders=("a", "b"), on="o", commit="c", tree="t")
    record = TrainRecord(repository="r", branch="main", tip="o", queue=pair, row=(car,))
    after = queue.shows_too_little(record, car, "too little", "passed", 1.0)
    assert not after.row and [each.alone for each in after.queue] == ["must", "must"]
