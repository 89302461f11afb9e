"""A terminal's states, which can follow which, and every time that decides between them.

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

# Every time that decides a terminal's state, in milliseconds. What a state means is in `states`.

# Looking...

FILE_PAUSE = 50
"""Between two looks at the state file."""
LOOK_PAUSE = 60
"""Between two looks at the screen of an agent that keeps writing."""
LOOK_LONGEST = 1000
"""Between two looks at the screen of any program that keeps writing."""
QUIET = 300
"""After this much silence, a program that is not a known agent is checked for a prompt."""
LATE = 500
"""When our own process was woken this much too late, the machine is too busy to judge by what was not seen."""

# Accepting what was seen...

HOLD = 150
"""A new state counts after this time, because a screen may have been read during a redraw."""
FIRST_IDLE = 600
"""The same for the very first input box, because agents may draw it and then a dialog over it. Only the time counts
in which the program's processes sleep: neither stopped, nor computing, nor waiting for a processor."""
AWAKE_MAX = 1200
FIRST_AWAKE_MAX = 5000
"""A program that never sleeps, although its screen says idle, is believed after this time; at its start later."""
STILL = 700
"""After this time without output a screen stands still. A spinner is faster, a clock slower."""
RESTLESS = 1500
"""For this long a screen may move without typing or a sign of work and still count as idle."""
FIRST_SCREEN = 60_000
"""For this long before its first input box, a program counts as starting."""
STALE = 30_000
"""A working agent changes something on its screen every second or so. If nothing moved for this long, it is not
working, or not running any more."""

# After our own keys...

ANSWERING = 3000
"""For this long, a program may be reacting to a key that answers its dialog."""
SUBMITTED_MAX = 20_000
"""For this long after our Enter, the program is expected to show a turn, a dialog or an error. Time in which it was
stopped does not count. TREADLE_SUBMIT_SECONDS of the sender sets another limit."""
COMMAND_TAKEN = 1500
"""A command of the program, such as /clear, starts no turn: it is over when its box was empty for this long."""
SETTLED = 120
SETTLED_AGENT = 300
"""Silence before Enter. Gemini takes an Enter within 40 ms of a paste for part of the paste, and its timer for that is
late when it is busy."""
SETTLE_MAX = 3000
"""How long a changing state, or a program that is not an agent and does not stop drawing, is waited for."""

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
