"""What the rest of a goal will take, from what orders of each size took here before. Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping

import msgspec

from treadle.wire.goal.plan import GoalPlan, Size
from treadle.wire.goal.records import OVER, GoalRecord


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int
    spread: int | None
    """One standard deviation; None when too little was seen to say."""
    seen: int
    """From how many orders."""


def sizes(goals: Iterable[tuple[GoalRecord, GoalPlan]]) -> dict[Size, list[int]]:
    """The tokens that each finished order took, by its size."""
    found: dict[Size, list[int]] = {"s": [], "m": [], "l": []}
    for record, plan in goals:
        for order in plan.order:
            step = record.steps.get(order.id)
            if step is not None and step.state in OVER and step.used.tokens:
                found[order.size].append(step.used.tokens)
    return found


def forecast(record: GoalRecord, plan: GoalPlan, seen: Mapping[Size, list[int]]) -> Forecast | None:
    """For the orders that are not over; None where nothing of their sizes was ever measured."""
    left = [order.size for order in plan.order if record.steps[order.id].state not in OVER]
    if any(not seen[size] for size in left):
        return None
    tokens = sum(statistics.fmean(seen[size]) for size in left)
    known = all(len(seen[size]) > 1 for size in left)
    spread = math.sqrt(sum(statistics.variance(seen[size]) for size in left)) if known else None
    return Forecast(
        tokens=round(tokens), spread=None if spread is None else round(spread), seen=sum(map(len, seen.values()))
    )
