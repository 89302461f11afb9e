"""Which orders of a plan can go together. Pure: the plan says everything.

An order goes into the first wave in which everything that it comes after has landed. Of two whose claims overlap, the
one that stands later in the file goes a wave later: both would start from the same commit and then conflict. Overlaps
that `after` already keeps apart are none.
"""

from collections.abc import Sequence

import msgspec

from treadle.policy.patterns import overlaps
from treadle.wire.goal.plan import GoalPlan, PlannedOrder


class PlanWave(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    orders: tuple[str, ...]


class ClaimOverlap(msgspec.Struct, frozen=True, kw_only=True):
    """Two orders that could go together but for their claims."""

    first: str
    second: str
    claims: tuple[str, str]


def waves(plan: GoalPlan) -> tuple[list[PlanWave], list[ClaimOverlap]]:
    """The waves of a plan without mistakes, and the overlaps that put an order into a later one."""
    wave: dict[str, int] = {}
    found: list[ClaimOverlap] = []
    for order in in_order(plan.order):
        number = max([order.wave, 1, *(wave[each] + 1 for each in order.after)])
        while met := _met(order, [each for each in plan.order if wave.get(each.id) == number]):
            found.append(met)
            number += 1
        wave[order.id] = number
    numbers = sorted(set(wave.values()))
    members = {number: tuple(each.id for each in plan.order if wave[each.id] == number) for number in numbers}
    return [PlanWave(number=number, orders=members[number]) for number in numbers], found


def in_order(orders: Sequence[PlannedOrder]) -> list[PlannedOrder]:
    """The orders so that each stands behind all that it comes after; otherwise as in the file."""
    left, placed, result = list(orders), set[str](), list[PlannedOrder]()
    while left:
        one = next(order for order in left if placed.issuperset(order.after))
        left.remove(one)
        placed.add(one.id)
        result.append(one)
    return result


def _met(order: PlannedOrder, others: Sequence[PlannedOrder]) -> ClaimOverlap | None:
    for other in others:
        for theirs in other.claims:
            for ours in order.claims:
                if overlaps(theirs, ours):
                    return ClaimOverlap(first=other.id, second=order.id, claims=(theirs, ours))
    return None
