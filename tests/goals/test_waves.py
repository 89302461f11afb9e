"""Which orders of a plan go together."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.goals.waves import in_order, waves
from treadle.policy.patterns import overlaps
from treadle.wire.goal.plan import GoalPlan, PlannedOrder


def order(name: str, after: tuple[str, ...] = (), claims: tuple[str, ...] = (), wave: int = 0) -> PlannedOrder:
    return PlannedOrder(id=name, task=name, after=after, claims=claims, wave=wave)


def of(*orders: PlannedOrder) -> list[tuple[int, tuple[str, ...]]]:
    return [(wave.number, wave.orders) for wave in waves(GoalPlan(goal="g", order=orders))[0]]


def test_an_order_goes_into_the_wave_after_the_last_one_that_it_needs() -> None:
    assert of(order("c", ("a", "b")), order("a"), order("b", ("a",))) == [(1, ("a",)), (2, ("b",)), (3, ("c",))]


def test_of_two_with_overlapping_claims_the_later_one_waits_and_it_is_said_why() -> None:
    plan = GoalPlan(goal="g", order=(order("a", claims=("x/**",)), order("b", claims=("x/y.py",)), order("c")))
    found, (overlap,) = waves(plan)
    assert [wave.orders for wave in found] == [("a", "c"), ("b",)]
    assert (overlap.first, overlap.second, overlap.claims) == ("a", "b", ("x/**", "x/y.py"))


def test_an_overlap_that_after_keeps_apart_is_none() -> None:
    plan = GoalPlan(goal="g", order=(order("a", claims=("x",)), order("b", ("a",), claims=("x",))))
    assert waves(plan)[1] == []


def test_a_written_wave_only_delays() -> None:
    assert of(order("a", wave=3), order("b", ("a",), wave=1)) == [(3, ("a",)), (4, ("b",))]


@st.composite
def plans(draw: st.DrawFn) -> GoalPlan:
    count = draw(st.integers(1, 9))
    claims = st.lists(st.sampled_from(["a", "a/**", "b.py", "**/*.md", "c/d.md"]), max_size=2).map(tuple)
    orders = []
    for number in range(count):
        after = draw(st.sets(st.sampled_from(range(number)), max_size=3)) if number else set()
        orders.append(order(f"o{number}", tuple(f"o{each}" for each in after), draw(claims), draw(st.integers(0, 4))))
    return GoalPlan(goal="g", order=tuple(draw(st.permutations(orders))))


@given(plans())
def test_in_every_plan_each_order_has_one_wave_behind_what_it_needs_and_beside_no_overlap(plan: GoalPlan) -> None:
    found, _ = waves(plan)
    number = {name: wave.number for wave in found for name in wave.orders}
    assert sorted(number) == sorted(each.id for each in plan.order)
    for one in plan.order:
        assert number[one.id] >= one.wave and all(number[other] < number[one.id] for other in one.after)
        for other in plan.order:
            if other.id != one.id and number[other.id] == number[one.id]:
                assert not any(overlaps(a, b) for a in one.claims for b in other.claims)


def test_an_order_moves_on_until_it_meets_no_overlap_and_each_is_told() -> None:
    plan = GoalPlan(
        goal="g", order=(order("a", claims=("x",)), order("b", claims=("x", "y")), order("c", claims=("z", "y", "x")))
    )
    found, met = waves(plan)
    assert [(wave.number, wave.orders) for wave in found] == [(1, ("a",)), (2, ("b",)), (3, ("c",))]
    assert [(each.first, each.second, each.claims) for each in met] == [
        ("a", "b", ("x", "x")),
        ("a", "c", ("x", "x")),
        ("b", "c", ("x", "x")),
    ]
    assert [each.id for each in in_order((order("c", ("a",)), order("b"), order("a")))] == ["b", "a", "c"]
