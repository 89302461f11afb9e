"""Whether a failed attempt is followed by another, and when."""

from treadle.wire.fleet.messages import RunEnded
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order

LONGEST = 3600.0
"""The longest wait between two attempts, in seconds."""


def again(spec: Spec, order: Order, report: RunEnded) -> bool:
    """What failed by our own fault is always worth another attempt; the rest is for the one who submitted it to say."""
    worth = report.fault == "ours" or report.fault in spec.retry_on or report.retryable and not report.fault
    return report.outcome == "failed" and worth and order.tries < spec.attempts


def pause(spec: Spec, order: Order) -> float:
    """How long the next attempt waits: twice as long after each that failed. One that was lost waits for nothing."""
    failed = sum(attempt.outcome == "failed" for attempt in order.attempts)
    return min(LONGEST, spec.backoff * 2.0 ** (min(failed, 30) - 1)) if failed else 0.0
