"""A terminal's states, and which can follow which.

The states are judged from outside, so almost anything can be seen after anything: we may have looked away for a whole
turn. What the table rules out is what would be a false statement about what *we* did or know:

- After our Enter, `submitted` is not followed by `idle`: a turn, a dialog or an error has to be seen between, or the
  time runs out and the state is unknown. A turn that was over before it was seen passes through `thinking`.
- Only where a text can be submitted is it `submitted`: an Enter in a dialog is an answer.
- A program that has shown its input box does not start again, unless it was asking (Gemini restarts after its trust
  dialog) or was lost sight of (a shell in which an agent is started).
- Nothing follows `dead`.
"""

from treadle.errors import LocalError

STARTING, IDLE, SUBMITTED, ERROR, UNKNOWN, DEAD = "starting", "idle", "submitted", "error", "unknown", "dead"
THINKING, STREAMING, TOOL_USE, WORKING = "thinking", "streaming", "tool_use", "working"
PERMISSION, QUESTION = "permission", "question"

AT_WORK = (THINKING, STREAMING, TOOL_USE, WORKING)
WAITING = (PERMISSION, QUESTION)
AT_REST = (IDLE, PERMISSION, QUESTION, ERROR)

_SEEN = frozenset((*AT_WORK, *WAITING, IDLE, ERROR, UNKNOWN, DEAD))
TRANSITIONS: dict[str, frozenset[str]] = {
    STARTING: _SEEN | {SUBMITTED},
    IDLE: _SEEN | {SUBMITTED},
    ERROR: _SEEN | {SUBMITTED},
    SUBMITTED: _SEEN - {IDLE},
    **{state: _SEEN | {SUBMITTED} for state in AT_WORK},
    **{state: _SEEN | {STARTING} for state in WAITING},
    UNKNOWN: _SEEN | {STARTING, SUBMITTED},
    DEAD: frozenset(),
}


def may_follow(before: str, after: str) -> bool:
    return before == after or after in TRANSITIONS[before]


def move(before: str, after: str) -> str:
    """The state after, if it can follow."""
    if not may_follow(before, after):
        raise LocalError(f"a terminal that is {before} does not become {after}")
    return after
