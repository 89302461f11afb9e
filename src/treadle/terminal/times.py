"""Every time that decides a terminal's state, in milliseconds. What a state means is in `states`."""

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
