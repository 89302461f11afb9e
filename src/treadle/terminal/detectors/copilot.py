"""GitHub Copilot CLI. It tells its progress by OSC 9;4; that stays on while it asks for a permission."""

from treadle.terminal.detectors import (
    COMMON_DIALOGS,
    DIALOG,
    ERROR,
    FOOTER,
    LAST,
    PERMISSION,
    PROGRESS,
    QUESTION,
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
    "copilot",
    programs=("copilot",),
    apps=("copilot", "copilot-cli"),
    known_by=(r"^(.* - )?GitHub Copilot$", r"\bGitHub Copilot (CLI )?v\d"),
    box=Box(RULE, r"[❯>!](\s|$)", RULE, unless=r"[❯>] ?\d+\. "),
    prompt=r" [❯>] \S",
    block=r" [●○◉◎✗✓$!❯] ",
    skip=r" [~/]\S*$| \S+ \S* ?\[.*\]$",
    signs=(
        # Dialogs
        Sign(QUESTION, DIALOG, r"Do you trust the files in this folder\?"),
        Sign(PERMISSION, DIALOG, r"^[ │]*Do you want to (run|allow|edit|create|delete|make|proceed|apply|write)\b"),
        Sign(PERMISSION, DIALOG, r"^[ │]*\d\. No, and tell Copilot what to do"),
        *COMMON_DIALOGS,
        # At work
        Sign(
            WORKING,
            FOOTER,
            r"^ ?\S (Working|Thinking|Cancelling)\b|\besc esc (interrupt|edit prompt)\b|\besc to (interrupt|cancel)\b",
        ),
        Sign(WORKING, PROGRESS, r"^[123]$"),
        Sign(TOOL, LAST, r"\A \$ (?!.*(\d+ lines?…|No Content))"),
        Sign(THINKING, LAST, r"\A ● (Request failed due to|MCP Servers)"),
        Sign(STREAMING, LAST, r"\A ● "),
        # Over
        Sign(ERROR, STATUS, r"^ ?Please use /login to sign in"),
        Sign(ERROR, LAST, r"\A ✗ (?!.*(aborted by user|cancelled by user|rejected by user))"),
    ),
)
