"""Kimi Code. Its footer rotates tips such as "ctrl+c: cancel" even while it is idle, so they are no sign of work."""

from treadle.terminal.detectors import COMMON_DIALOGS, Box, Detector, Sign

DETECTOR = Detector(
    "kimi",
    known_by=(r"Welcome to Kimi\b", r"Exit Kimi Code\b", r"\bKimi Code v\d"),
    box=Box(r" *╭─{8,}.*", r" *│ [>!$✨](\s|$)", r" *╰─{8,}.*"),
    prompt=r" *✨ ",
    block=r" *[●✗✨] | +(Error|Interrupted|Approved|Rejected)\b",
    skip=r" *[🌑🌒🌓🌔🌕🌖🌗🌘⠀-⣿](\s|$)",
    signs=(
        # Dialogs
        Sign(
            "permission", "dialog", r"^\s*▶ 1\. Approve\b|^\s*(Run this command|Apply (this|these) (edit|change)s?)\?"
        ),
        Sign("permission", "dialog", r"↑/↓ select · [\d/]+ choose · ↵ confirm"),
        Sign("question", "dialog", r"↵ choose .*esc cancel|^\s*Trust this folder\?"),
        *COMMON_DIALOGS,
        # At work
        Sign("working", "status", r"^ *[🌑🌒🌓🌔🌕🌖🌗🌘⠀-⣿](\s|$)"),
        Sign("tool_use", "turn", r"^ *● Running\b"),
        Sign("streaming", "last", r"\A *● (?!Ran |Collected |Read |Wrote |Edited |Used )"),
        # Over
        Sign("error", "last", r"\A *Error: "),
    ),
)
