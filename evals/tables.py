"""Results in words and columns: one configuration by itself, or two side by side."""

from collections.abc import Iterable, Sequence

from evals.results import Attempt, Results
from evals.statistics import Interval, bootstrap, bootstrap_ratio, mean, sign_test, wilson

HEAD = ("task", "passed", "95 %", "steps", "tokens in", "cached", "out", "cost", "seconds", "tool errors")


def table(results: Results) -> str:
    """Per task, per size and in total."""
    rows: list[tuple[str, ...]] = [HEAD]
    tasks = _by_task(results.attempts)
    rows += [_row(name, attempts) for name, attempts in tasks.items()]
    sizes = dict.fromkeys(attempt.size for attempt in results.attempts)
    if len(sizes) > 1:
        rows += [_row(f"all {size}", [one for one in results.attempts if one.size == size]) for size in sizes]
    rows.append(_row("all", results.attempts))
    loads = [attempt.load for attempt in results.attempts] or [0.0]
    notes = [f"{results.configuration.label}; {results.cores} cores, load {min(loads):.1f} to {max(loads):.1f}"]
    notes += [f"  {one.task}: {_reason(one)}" for one in results.attempts if not one.passed]
    if any(attempt.estimated for attempt in results.attempts):
        notes.append("some token counts are estimates")
    return "\n".join([*aligned(rows), *notes])


def _reason(attempt: Attempt) -> str:
    ended = "" if attempt.outcome == "completed" else f" [{attempt.outcome}: {attempt.error}]"
    return f"{attempt.why}{ended}"


def _row(name: str, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    passed = sum(attempt.passed for attempt in attempts)
    costs = [attempt.cost_usd for attempt in attempts]
    cost = "?" if None in costs else f"{sum(cost or 0 for cost in costs):.4f}"
    calls = sum(attempt.tool_calls for attempt in attempts)
    return (
        name,
        f"{passed}/{len(attempts)}",
        _percent(pass_interval(attempts)),
        f"{mean([attempt.steps for attempt in attempts]):.1f}",
        f"{sum(attempt.input_tokens for attempt in attempts):,}",
        f"{sum(attempt.cached_tokens for attempt in attempts):,}",
        f"{sum(attempt.output_tokens for attempt in attempts):,}",
        cost,
        f"{sum(attempt.seconds for attempt in attempts):.0f}",
        f"{sum(attempt.tool_errors for attempt in attempts)}/{calls}",
    )


def pass_interval(attempts: Sequence[Attempt]) -> Interval:
    """One run per task, or runs of one task, count as independent trials; several runs of several tasks count by
    task.
    """
    tasks = _by_task(attempts)
    if len(tasks) == 1 or len(tasks) == len(attempts):
        return wilson(sum(attempt.passed for attempt in attempts), len(attempts))
    return bootstrap([_share(some) for some in tasks.values()])


def comparison(first: Results, second: Results) -> str:
    """The tasks that both ran, in pairs. Tokens are compared only on tasks that both passed."""
    a, b = _by_task(first.attempts), _by_task(second.attempts)
    common = [name for name in a if name in b]
    if not common:
        return "the two have no task in common"
    rows: list[tuple[str, ...]] = [("task", "A passed", "B passed", "A tokens", "B tokens", "A seconds", "B seconds")]
    rows += [_pair_row(name, a[name], b[name]) for name in common]
    gains = [_share(b[name]) - _share(a[name]) for name in common]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    both = [name for name in common if _share(a[name]) == _share(b[name]) == 1.0]
    lines = [
        f"A: {first.configuration.label}",
        f"B: {second.configuration.label}",
        *aligned(rows),
        f"passed: A {_total(a, common)}, B {_total(b, common)} of {len(common)} tasks;"
        f" B - A = {100 * mean(gains):+.0f} points {_percent(bootstrap(gains))}",
        f"B better on {better}, worse on {worse}; sign test p = {sign_test(better, worse):.2f}",
        _tokens(a, b, both),
    ]
    return "\n".join(lines)


def _pair_row(name: str, first: list[Attempt], second: list[Attempt]) -> tuple[str, ...]:
    def tokens(attempts: list[Attempt]) -> str:
        return f"{mean([attempt.tokens for attempt in attempts]):,.0f}"

    def seconds(attempts: list[Attempt]) -> str:
        return f"{mean([attempt.seconds for attempt in attempts]):.0f}"

    passed = [f"{sum(attempt.passed for attempt in some)}/{len(some)}" for some in (first, second)]
    return (name, *passed, tokens(first), tokens(second), seconds(first), seconds(second))


def _tokens(a: dict[str, list[Attempt]], b: dict[str, list[Attempt]], both: list[str]) -> str:
    if not both:
        return "tokens at equal success: no task was passed by both"
    pairs = [(mean([one.tokens for one in b[name]]), mean([one.tokens for one in a[name]])) for name in both]
    ratio = sum(first for first, _ in pairs) / (sum(second for _, second in pairs) or 1)
    low, high = bootstrap_ratio(pairs)
    return (
        f"tokens at equal success ({len(both)} tasks that both passed): B / A = {ratio:.2f} [{low:.2f} to {high:.2f}]"
    )


def _total(tasks: dict[str, list[Attempt]], names: list[str]) -> str:
    return f"{sum(_share(tasks[name]) for name in names):g}"


def _share(attempts: Sequence[Attempt]) -> float:
    return mean([float(attempt.passed) for attempt in attempts])


def _by_task(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    tasks: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        tasks.setdefault(attempt.task, []).append(attempt)
    return tasks


def _percent(interval: Interval) -> str:
    return f"[{100 * interval[0]:.0f} to {100 * interval[1]:.0f}]"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns, the first to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
