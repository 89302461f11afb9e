"""Qwen Code. While it asks for permission, its spinner glyph stays visible but does not move."""

from treadle.terminal.detectors import BRAILLE, COMMON_DIALOGS, RULE, Box, Detector, Sign

DETECTOR = Detector(
    "qwen",
    known_by=(r"^(\S+ )?Qwen - ", r"\bQwen Code v?\d", r"Alibaba ModelStudio"),
    box=Box(RULE, r"[>!*](\s|$)", RULE, unless=r"[❯›>] ?\d+\. "),
    prompt=r"  > \S",
    block=r"  [◆✓✕✗?●△⊶⊷ℹx-] ",
    settle_ms=300,
    placeholder=r"Type your message or @path/to/file",
    suggests=True,
    signs=(
        Sign("permission", "title", r"^✳"),
        Sign("working", "title", r"^[◐◑◒◓⠀-⣿]"),
        Sign("idle", "title", r"^Qwen - "),
        # Dialogs
        Sign("permission", "dialog", r"^\s*(Allow execution of|Apply this change\?|Do you want to (proceed|allow))"),
        Sign("permission", "dialog", r"^\s*› 1\. Yes, allow\b"),
        Sign("question", "dialog", r"AskUserQuestion|^[ │]*Connect a Provider|↑/↓: Navigate \| Enter: Select"),
        Sign("permission", "dialog", r"Waiting for user confirmation"),
        *COMMON_DIALOGS,
        # At work
        Sign("working", "status", rf"^\s*{BRAILLE} .*esc to cancel"),
        Sign("tool_use", "last", r"\A  [⊶⊷⠀-⣿] "),
        Sign("streaming", "last", r"\A  ◆ "),
        # Over
        Sign("error", "last", r"\A  ✕ "),
    ),
)
