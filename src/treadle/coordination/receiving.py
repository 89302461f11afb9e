"""Receives messages one per line, and records the outcome in the audit trail."""

from collections.abc import Hashable, Iterable, Iterator

from treadle.coordination.planning import Planning
from treadle.wire.heimdall.connection import ACCEPTED, ESCALATED, Connection, Invalid


def receive(planning: Planning, lines: Iterable[bytes]) -> Iterator[tuple[Hashable, int, list[str]]]:
    """Validate on receipt: for each attempt, the state it leads to, its number, and its faults.

    It ends when a message is accepted or two have failed. If the lines end before that, it escalates without faults.
    """
    receiver, attempts = Connection("receiver"), 0
    for found in _attempts(receiver, lines):
        attempts += 1
        if receiver.state == ACCEPTED:
            planning.note("validate", "accept" if attempts == 1 else "accept-retry", f"attempt={attempts}")
        elif receiver.state == ESCALATED:
            planning.note("validate", "escalate", f"attempts={attempts}")
        yield receiver.state, attempts, found
        if receiver.state in (ACCEPTED, ESCALATED):
            return
    planning.note("validate", "escalate", f"stream-end attempts={attempts}")
    yield ESCALATED, attempts, []


def _attempts(receiver: Connection, lines: Iterable[bytes]) -> Iterator[list[str]]:
    """The faults of each message as it arrives; a valid one has none."""
    for line in lines:
        for item in receiver.receive(line):
            yield item.faults if isinstance(item, Invalid) else []
    try:
        for _ in receiver.end():
            yield []
    except Invalid as error:
        yield error.faults
