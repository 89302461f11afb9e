"""What carrying goals out took, by way, and the ways against each other in pairs of the same goal."""

from collections.abc import Sequence

from evals.goals.running import GoalAttempt
from evals.statistics import bootstrap_ratio, wilson
from evals.tables import aligned

HEAD = ("way", "met", "95 %", "landed", "orders placed", "briefs", "shared", "tokens in", "cached", "out", "seconds")
PAIRS = (("delta", "verbatim"), ("planned", "delta"), ("reviewed", "delta"), ("one", "delta"))


def table(attempts: Sequence[GoalAttempt]) -> str:
    rows: list[tuple[str, ...]] = [HEAD]
    for way in dict.fromkeys(each.way for each in attempts):
        rows.append(_row(way, [each for each in attempts if each.way == way]))
    notes = [f"  {each.goal}, {each.way}: {each.why}" for each in attempts if not each.met]
    return "\n".join([*aligned(rows), *notes, "", *comparisons(attempts)])


def _row(way: str, some: Sequence[GoalAttempt]) -> tuple[str, ...]:
    met = sum(each.met for each in some)
    low, high = wilson(met, len(some))
    used = [one for each in some for one in each.used.values()]
    return (
        way,
        f"{met}/{len(some)}",
        f"[{100 * low:.0f} to {100 * high:.0f}]",
        f"{sum(each.landed for each in some)}/{sum(each.orders for each in some)}",
        str(sum(each.placed for each in some)),
        f"{sum(each.briefs for each in some):,}",
        f"{sum(each.shared for each in some):,}",
        f"{sum(each.input_tokens + each.cache_write_tokens for each in used):,}",
        f"{sum(each.cache_read_tokens for each in used):,}",
        f"{sum(each.output_tokens for each in used):,}",
        f"{sum(each.seconds for each in some):.0f}",
    )


def comparisons(attempts: Sequence[GoalAttempt]) -> list[str]:
    """Tokens of one way over those of another, on goals that both have met."""
    lines = []
    for first, second in PAIRS:
        met = {(each.way, each.goal): each for each in attempts if each.met}
        both = [goal for way, goal in met if way == first and (second, goal) in met]
        if not both:
            continue
        for what in ("tokens", "briefs"):
            pairs = [(getattr(met[first, goal], what), getattr(met[second, goal], what)) for goal in both]
            below = sum(pair[1] for pair in pairs)
            ratio = sum(pair[0] for pair in pairs) / below if below else 0.0
            low, high = bootstrap_ratio(pairs)
            lines.append(f"{what}, {first} / {second}: {ratio:.2f} [{low:.2f} to {high:.2f}] on {len(both)} goals")
    return lines
