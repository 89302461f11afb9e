"""Qwen Code. Its spinner glyph stands still, and stays, while it asks for a permission."""

from treadle.terminal.detectors import (
    BRAILLE,
    COMMON_DIALOGS,
    DIALOG,
    ERROR,
    IDLE,
    LAST,
    PERMISSION,
    QUESTION,
    RULE,
    STATUS,
    STREAMING,
    TITLE,
    TOOL,
    WORKING,
    Box,
    Detector,
    Sign,
)

DETECTOR = Detector(
    "qwen",
    programs=("qwen",),
    apps=("qwen-code", "qwen"),
    known_by=(r"^(\S+ )?Qwen - ", r"\bQwen Code v?\d", r"Alibaba ModelStudio"),
    box=Box(RULE, r"[>!*](\s|$)", RULE, unless=r"[❯›>] ?\d+\. "),
    prompt=r"  > \S",
    block=r"  [◆✓✕✗?●△⊶⊷ℹx-] ",
    settle_ms=300,
    signs=(
        Sign(PERMISSION, TITLE, r"^✳"),
        Sign(WORKING, TITLE, r"^[◐◑◒◓⠀-⣿]"),
        Sign(IDLE, TITLE, r"^Qwen - "),
        # Dialogs
        Sign(PERMISSION, DIALOG, r"^\s*(Allow execution of|Apply this change\?|Do you want to (proceed|allow))"),
        Sign(PERMISSION, DIALOG, r"^\s*› 1\. Yes, allow\b"),
        Sign(QUESTION, DIALOG, r"AskUserQuestion|^[ │]*Connect a Provider|↑/↓: Navigate \| Enter: Select"),
        Sign(PERMISSION, DIALOG, r"Waiting for user confirmation"),
        *COMMON_DIALOGS,
        # At work
        Sign(WORKING, STATUS, rf"^\s*{BRAILLE} .*esc to cancel"),
        Sign(TOOL, LAST, r"\A  [⊶⊷⠀-⣿] "),
        Sign(STREAMING, LAST, r"\A  ◆ "),
        # Over
        Sign(ERROR, LAST, r"\A  ✕ "),
    ),
)
