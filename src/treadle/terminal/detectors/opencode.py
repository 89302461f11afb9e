"""opencode. Its title is the name of the session; everything else is on the screen. Pickers cover the input box."""

from treadle.terminal.detectors import BRAILLE, COMMON_DIALOGS, NEVER, Box, Detector, Sign

DETECTOR = Detector(
    "opencode",
    known_by=(r"^OpenCode$", r"^OC \| ", r"\bOpenCode Zen\b"),
    box=Box("", r"\s*┃", r"\s*╹▀+\s*$"),
    prompt=NEVER,
    block=r"     (\S|$)|  ┃",
    skip=r"     ▣ |\s*┃\s*$",
    placeholder=r"Ask anything….*",
    box_note=r"\s*┃  \w[\w ]* · .*",
    signs=(
        # Dialogs
        Sign("permission", "dialog", r"^[ ┃]*△ Permission required"),
        Sign("permission", "dialog", r"Allow once\s+Allow always\s+Reject"),
        Sign("question", "dialog", r"enter submit\s+esc dismiss"),
        Sign("question", "dialog", r"^\s*(Connect a provider|Select (a )?\w+|Switch \w+).*\besc\s*$"),
        Sign("question", "dialog", r"\S\s{8,}esc\s*$"),
        *COMMON_DIALOGS,
        # At work
        Sign("working", "footer", r"\besc (again to )?interrupt\b"),
        # The prompt is there, and nothing after it: the answer has not begun.
        Sign("working", "turn", r"(?:\A|^\n)  ┃\n  ┃  (?![$#] )\S.*\n(  ┃  .*\n)*  ┃\s*\Z"),
        Sign("tool_use", "last", rf"┃\s+{BRAILLE} "),
        Sign("thinking", "last", rf"\A     ({BRAILLE} |\+ Thought|[$→←✱⚙%~] )"),
        Sign("streaming", "last", r"\A     \S"),
        # Over
        # A block of its own directly after the prompt, and no time in the line that ends the turn.
        Sign(
            "error",
            "turn",
            r"^  ┃.*\n.*\n  ┃\s*\n  ┃  (?P<said>(?!\$ |# )\S.*)\n(  ┃  .*\n)*  ┃\s*\n+     ▣  [^·]+· [^·]+\Z",
        ),
    ),
)
