"""pi. It asks for no permissions, and has no dialogs but its pickers, which replace the input box."""

from treadle.terminal.detectors import (
    BRAILLE,
    COMMON_DIALOGS,
    ERROR,
    LAST,
    NEVER,
    RULE,
    STATUS,
    STREAMING,
    THINKING,
    TOOL,
    WORKING,
    Box,
    Detector,
    Sign,
)

DETECTOR = Detector(
    "pi",
    programs=("pi",),
    apps=("pi",),
    known_by=(r"^π - ", r"^ pi v\d+\.\d+"),
    box=Box(RULE, r"(?! ?[─╌━]{8,})", RULE),
    prompt=NEVER,
    block=r"$| \S",
    skip=rf" {BRAILLE} |\s*$",
    signs=(
        *COMMON_DIALOGS,
        # At work
        Sign(WORKING, STATUS, rf"^ {BRAILLE} \S"),
        Sign(TOOL, LAST, r"^ Elapsed \d"),
        Sign(THINKING, STATUS, rf"^ {BRAILLE} (Retrying|Thinking)"),
        Sign(STREAMING, LAST, r"\S"),
        # Over
        Sign(ERROR, LAST, r"^ Error: |^ Use /login to log into a provider"),
    ),
)
