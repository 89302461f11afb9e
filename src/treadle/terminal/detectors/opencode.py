"""opencode. Its title is the name of the session; all else is on the screen. Pickers are drawn over the input box."""

from treadle.terminal.detectors import (
    BRAILLE,
    COMMON_DIALOGS,
    DIALOG,
    ERROR,
    FOOTER,
    LAST,
    NEVER,
    PERMISSION,
    QUESTION,
    STREAMING,
    THINKING,
    TOOL,
    TURN,
    WORKING,
    Box,
    Detector,
    Sign,
)

DETECTOR = Detector(
    "opencode",
    programs=("opencode",),
    apps=("opencode",),
    known_by=(r"^OpenCode$", r"^OC \| ", r"\bOpenCode Zen\b"),
    box=Box("", r"\s*┃", r"\s*╹▀+\s*$"),
    prompt=NEVER,
    block=r"     (\S|$)|  ┃",
    skip=r"     ▣ |\s*┃\s*$",
    signs=(
        # Dialogs
        Sign(PERMISSION, DIALOG, r"^[ ┃]*△ Permission required"),
        Sign(PERMISSION, DIALOG, r"Allow once\s+Allow always\s+Reject"),
        Sign(QUESTION, DIALOG, r"enter submit\s+esc dismiss"),
        Sign(QUESTION, DIALOG, r"^\s*(Connect a provider|Select (a )?\w+|Switch \w+).*\besc\s*$"),
        Sign(QUESTION, DIALOG, r"\S\s{8,}esc\s*$"),
        *COMMON_DIALOGS,
        # At work
        Sign(WORKING, FOOTER, r"\besc (again to )?interrupt\b"),
        # What was asked stands there, and nothing after it: the answer has not begun.
        Sign(WORKING, TURN, r"(?:\A|^\n)  ┃\n  ┃  (?![$#] )\S.*\n(  ┃  .*\n)*  ┃\s*\Z"),
        Sign(TOOL, LAST, rf"┃\s+{BRAILLE} "),
        Sign(THINKING, LAST, rf"\A     ({BRAILLE} |\+ Thought|[$→←✱⚙%~] )"),
        Sign(STREAMING, LAST, r"\A     \S"),
        # Over
        # A block of its own straight after the prompt, and no time in the line that ends the turn.
        Sign(
            ERROR,
            TURN,
            r"^  ┃.*\n.*\n  ┃\s*\n  ┃  (?P<said>(?!\$ |# )\S.*)\n(  ┃  .*\n)*  ┃\s*\n+     ▣  [^·]+· [^·]+\Z",
        ),
    ),
)
