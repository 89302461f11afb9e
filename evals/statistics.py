"""Confidence intervals for few and unequal trials. Pure; the random numbers are the same each time."""

import random
from collections.abc import Sequence
from math import comb, sqrt
from typing import TypeAlias

Interval: TypeAlias = tuple[float, float]
RESAMPLES = 5000
Z = 1.959963984540054
"""Two-sided 95 %."""


def wilson(passed: int, tried: int) -> Interval:
    """For a share of independent trials; sensible at 0 of n and n of n, where the textbook interval has no width."""
    if not tried:
        return 0.0, 1.0
    share, square = passed / tried, Z * Z / tried
    middle = (share + square / 2) / (1 + square)
    half = Z * sqrt(share * (1 - share) / tried + square / (4 * tried)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def bootstrap(values: Sequence[float]) -> Interval:
    """Of the mean, by drawing tasks with replacement: tasks are what was sampled, and runs of one task are alike."""
    if not values:
        return 0.0, 0.0
    chance = random.Random(1)
    means = sorted(mean(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return _ends(means)


def bootstrap_ratio(pairs: Sequence[tuple[float, float]]) -> Interval:
    """Of the sum of the first divided by the sum of the second, by drawing pairs with replacement."""
    if not pairs:
        return 0.0, 0.0
    chance = random.Random(1)
    ratios = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(pairs, k=len(pairs))
        below = sum(second for _, second in drawn)
        ratios.append(sum(first for first, _ in drawn) / below if below else 0.0)
    return _ends(sorted(ratios))


def _ends(values: list[float]) -> Interval:
    edge = len(values) * 25 // 1000
    return values[edge], values[-1 - edge]


def sign_test(first: int, second: int) -> float:
    """The probability of a split at least this unequal when both are equally good (two-sided, exact)."""
    total = first + second
    if not total:
        return 1.0
    tail = sum(comb(total, k) for k in range(min(first, second) + 1)) / 2**total
    return float(min(1.0, 2 * tail))
