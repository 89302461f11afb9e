"""The states of an order, of an attempt at it and of a question, each as one table: (state, what happens) -> state.

What is not in a table cannot happen: `moved` raises, and nothing was changed. The pictures in the docs are drawn from
these tables.

Why the order's table is safe against messages that come late, twice or from a runner that was given up: only the
scheduler moves an order, each report names an attempt, and one about another attempt than the current one is dropped
before this table is asked (the fence). Within an attempt the engine keeps the order of reports but may repeat them, so
a repeated `ask` or `resume` leads to where it led before. `start` may be lost with a server and a later report come
first, so a placed order may ask, go on or end. An order ends once, because no state that is an end has a way out; a
retry is another order. It is given back from wherever it was at work, and waits in the queue again.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypeVar, get_args

from treadle.errors import LocalProtocolError

State: TypeAlias = Literal["queued", "placed", "running", "asking", "done", "failed", "cancelled", "skipped"]
Happening: TypeAlias = Literal[
    "place", "start", "ask", "resume", "park", "give_back", "done", "failed", "cancelled", "skipped"
]
End: TypeAlias = Literal["done", "failed", "cancelled", "skipped"]
ENDED: tuple[State, ...] = get_args(End)
AT_WORK: tuple[State, ...] = ("placed", "running", "asking")

ORDER: Mapping[tuple[State, Happening], State] = {
    ("queued", "place"): "placed",
    ("queued", "ask"): "asking",  # it is a question itself, which no runner puts
    ("queued", "cancelled"): "cancelled",
    ("queued", "skipped"): "skipped",
    ("queued", "failed"): "failed",  # it cannot be read
    ("placed", "start"): "running",
    ("placed", "ask"): "asking",
    ("placed", "resume"): "running",
    ("placed", "park"): "asking",
    ("placed", "give_back"): "queued",
    ("placed", "done"): "done",
    ("placed", "failed"): "failed",
    ("placed", "cancelled"): "cancelled",
    ("running", "ask"): "asking",
    ("running", "resume"): "running",
    ("running", "park"): "asking",
    ("running", "give_back"): "queued",
    ("running", "done"): "done",
    ("running", "failed"): "failed",
    ("running", "cancelled"): "cancelled",
    ("asking", "ask"): "asking",
    ("asking", "resume"): "running",
    ("asking", "park"): "asking",  # it keeps its question and gives its slot back
    ("asking", "give_back"): "queued",
    ("asking", "done"): "done",
    ("asking", "failed"): "failed",
    ("asking", "cancelled"): "cancelled",
}

Outcome: TypeAlias = Literal["done", "failed", "cancelled", "lost", "handed_back", "parked", "not_here"]
Fault: TypeAlias = Literal["", "ours", "provider", "verify"]
"""Whose fault a failed attempt is, as far as that decides whether it is worth another: our own, the model service's, or
the work's, which did not pass its check."""
AttemptState: TypeAlias = Literal["placed", "started"] | Outcome

ATTEMPT: Mapping[tuple[AttemptState, Literal["start"] | Outcome], AttemptState] = {
    ("placed", "start"): "started",
    **{(before, outcome): outcome for before in ("placed", "started") for outcome in get_args(Outcome)},
}
"""An attempt ends once: with its runner's report, or when the scheduler gives it up as lost, whichever comes first. By
then the order is in another attempt or over, so what comes late is dropped by the fence, and would be refused here.
`start` may be lost, so every end is possible without it."""

ChangeReason: TypeAlias = Literal["usage_limit", "same_failure", "budget", "program", "person"]
REASONS: Mapping[ChangeReason, str] = {
    "usage_limit": "its account is at a limit that lasts longer than the order waits",
    "same_failure": "it failed twice for the same reason",
    "budget": "the budget of this agent is spent",
    "program": "no machine can start it",
    "person": "a person wants it so",
}
"""Why another agent goes on with an order."""

QuestionState: TypeAlias = Literal["open", "answered", "taken"]

QUESTION: Mapping[tuple[QuestionState, Literal["answer", "withdraw", "take"]], QuestionState] = {
    ("open", "answer"): "answered",
    ("answered", "withdraw"): "open",
    ("answered", "take"): "taken",  # by the runner: from here on the answer counts
}
"""The first to write `taken.ID.NUMBER.REVISION` has the answer: the runner, or a person who withdraws it."""

S = TypeVar("S", bound=str)
H = TypeVar("H", bound=str)


class IllegalMove(LocalProtocolError):
    """What was tried is not possible in this state."""


def moved(table: Mapping[tuple[S, H], S], state: S, happening: H) -> S:
    try:
        return table[state, happening]
    except KeyError:
        raise IllegalMove(f"{happening} is not possible in the state {state}") from None
