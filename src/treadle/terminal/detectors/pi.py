"""pi. It asks for no permissions; its only dialogs are pickers, which replace the input box."""

from treadle.terminal.detectors import BRAILLE, COMMON_DIALOGS, NEVER, RULE, Box, Detector, Sign

DETECTOR = Detector(
    "pi",
    known_by=(r"^π - ", r"^ pi v\d+\.\d+"),
    box=Box(RULE, r"(?! ?[─╌━]{8,})", RULE),
    prompt=NEVER,
    block=r"$| \S",
    skip=rf" {BRAILLE} |\s*$",
    signs=(
        *COMMON_DIALOGS,
        # At work
        Sign("working", "status", rf"^ {BRAILLE} \S"),
        Sign("tool_use", "last", r"^ Elapsed \d"),
        Sign("thinking", "status", rf"^ {BRAILLE} (Retrying|Thinking)"),
        Sign("streaming", "last", r"\S"),
        # Over
        Sign("error", "last", r"^ Error: |^ Use /login to log into a provider"),
    ),
)
