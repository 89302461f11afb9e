"""GitHub Copilot CLI. It reports its progress by OSC 9;4, which stays on while it asks for permission."""

from treadle.terminal.detectors import COMMON_DIALOGS, RULE, Box, Detector, Sign

DETECTOR = Detector(
    "copilot",
    known_by=(r"^(.* - )?GitHub Copilot$", r"\bGitHub Copilot (CLI )?v\d"),
    box=Box(RULE, r"[❯>!](\s|$)", RULE, unless=r"[❯>] ?\d+\. "),
    prompt=r" [❯>] \S",
    block=r" [●○◉◎✗✓$!❯] ",
    skip=r" [~/]\S*$| \S+ \S* ?\[.*\]$",
    signs=(
        # Dialogs
        Sign("question", "dialog", r"Do you trust the files in this folder\?"),
        Sign("permission", "dialog", r"^[ │]*Do you want to (run|allow|edit|create|delete|make|proceed|apply|write)\b"),
        Sign("permission", "dialog", r"^[ │]*\d\. No, and tell Copilot what to do"),
        *COMMON_DIALOGS,
        # At work
        Sign(
            "working",
            "footer",
            r"^ ?\S (Working|Thinking|Cancelling)\b|\besc esc (interrupt|edit prompt)\b|\besc to (interrupt|cancel)\b",
        ),
        Sign("working", "progress", r"^[123]$"),
        Sign("tool_use", "last", r"\A \$ (?!.*(\d+ lines?…|No Content))"),
        Sign("thinking", "last", r"\A ● (Request failed due to|MCP Servers)"),
        Sign("streaming", "last", r"\A ● "),
        # Over
        Sign("error", "status", r"^ ?Please use /login to sign in"),
        Sign("error", "last", r"\A ✗ (?!.*(aborted by user|cancelled by user|rejected by user))"),
    ),
)
