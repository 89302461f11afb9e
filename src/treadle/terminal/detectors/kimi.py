"""Kimi Code. Its footer rotates tips such as "ctrl+c: cancel" while it is idle: they are no sign of work."""

from treadle.terminal.detectors import (
    COMMON_DIALOGS,
    DIALOG,
    ERROR,
    LAST,
    PERMISSION,
    QUESTION,
    STATUS,
    STREAMING,
    TOOL,
    TURN,
    WORKING,
    Box,
    Detector,
    Sign,
)

DETECTOR = Detector(
    "kimi",
    programs=("kimi",),
    apps=("kimi", "kimi-code"),
    known_by=(r"Welcome to Kimi\b", r"Exit Kimi Code\b", r"\bKimi Code v\d"),
    box=Box(r" *╭─{8,}.*", r" *│ [>!$✨](\s|$)", r" *╰─{8,}.*"),
    prompt=r" *✨ ",
    block=r" *[●✗✨] | +(Error|Interrupted|Approved|Rejected)\b",
    skip=r" *[🌑🌒🌓🌔🌕🌖🌗🌘⠀-⣿](\s|$)",
    signs=(
        # Dialogs
        Sign(PERMISSION, DIALOG, r"^\s*▶ 1\. Approve\b|^\s*(Run this command|Apply (this|these) (edit|change)s?)\?"),
        Sign(PERMISSION, DIALOG, r"↑/↓ select · [\d/]+ choose · ↵ confirm"),
        Sign(QUESTION, DIALOG, r"↵ choose .*esc cancel|^\s*Trust this folder\?"),
        *COMMON_DIALOGS,
        # At work
        Sign(WORKING, STATUS, r"^ *[🌑🌒🌓🌔🌕🌖🌗🌘⠀-⣿](\s|$)"),
        Sign(TOOL, TURN, r"^ *● Running\b"),
        Sign(STREAMING, LAST, r"\A *● (?!Ran |Collected |Read |Wrote |Edited |Used )"),
        # Over
        Sign(ERROR, LAST, r"\A *Error: "),
    ),
)
