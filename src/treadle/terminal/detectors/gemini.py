"""Gemini CLI. Its title is reliable, except that it says Ready in all start dialogs. It draws without synchronised
output, so a screen read during a redraw lacks the line that shows that it works."""

from treadle.terminal.detectors import BRAILLE, COMMON_DIALOGS, RULE, Box, Detector, Sign

DETECTOR = Detector(
    "gemini",
    known_by=(
        r"^[◇✦✋⏲]\s+(Ready|Working…|Action Required|Silent).*\(",
        r"\bGemini CLI v\d",
        r"\bGemini CLI is restarting\b",
        r"allows Gemini CLI to",
    ),
    # Its edges, ▄ and ▀, are blank on a terminal with few colours. A prompt in the transcript has no rule above it.
    box=Box("", r" ?[>!*](\s|$)", "", over=RULE),
    prompt=r" ?[>!] \S",
    block=r"[✦✕ℹ⚠] |╭",
    skip=r" *\? for shortcuts$|Press Ctrl\+O to |─{8,}|\s*Shift\+Tab to |\s*(YOLO|auto-accept|plan)\b.*|▄{8,}|▀{8,}",
    settle_ms=800,
    placeholder=r"Type your message or @path/to/file",
    signs=(
        Sign("permission", "title", r"^✋"),
        Sign("working", "title", r"^(✦|⏲)"),
        Sign("idle", "title", r"^◇\s+Ready"),
        # Dialogs
        Sign("starting", "dialog", r"^ ?Gemini CLI is restarting to apply .*\s*\Z"),
        Sign("question", "dialog", r"^[ │]*(Answer Questions|Do you trust the files in this folder\?)"),
        Sign("permission", "dialog", r"^[ │]*(Allow execution of|Apply this change\?|Do you want to (proceed|allow))"),
        Sign("permission", "dialog", r"^[ │]*● 1\. Allow\b"),
        *COMMON_DIALOGS,
        # At work
        Sign("working", "status", rf"^ ?{BRAILLE} .*\(esc to cancel"),
        Sign("tool_use", "last", r"^\s*│ [⊶⊷⠀-⣿]"),
        Sign("tool_use", "turn", r"^\s*│ [⊶⊷]"),
        Sign("streaming", "last", r"\A✦ "),
        # Over
        Sign("error", "turn", r"^✕ (?![\s\S]*^(✦ |ℹ Request cancelled))"),
    ),
)
