"""Claude Code. Its title looks the same when it is idle and when it asks; only its screen and OSC 7501 differ."""

from treadle.terminal.detectors import (
    COMMON_DIALOGS,
    DIALOG,
    ERROR,
    FOOTER,
    IDLE,
    LAST,
    PERMISSION,
    QUESTION,
    RULE,
    STATUS,
    STREAMING,
    THINKING,
    TITLE,
    TOOL,
    TURN,
    WORKING,
    Box,
    Detector,
    Sign,
)

DETECTOR = Detector(
    "claude",
    programs=("claude",),
    apps=("claude-code", "claude"),
    known_by=(r"^(\S )?Claude Code$", r"\bClaude Code v\d", r"Claude Code'll be able to", r"ANTHROPIC_API_KEY: sk"),
    box=Box(RULE, r"[❯>!#&](\s|$)", RULE, unless=r"[❯>] ?\d+\. "),
    prompt=r"[❯>!#]\s\S",
    block=r"[●⏺]|  ⎿\s|  (Ran|Running|Read|Thought|No result|Searched|Listed|Wrote|Updated)\b|[❯>]\s",
    skip=r"\s+◐? ?\w+ · /effort",
    end=r"[✻✽✶✢✳·*] \S",
    signs=(
        Sign(WORKING, TITLE, r"^[◐◑◒◓⠀-⣿] "),
        Sign(IDLE, TITLE, r"^[✳✻✶✢] Claude Code$"),
        # Dialogs
        Sign(QUESTION, DIALOG, r"^\s*Enter to select · .*Esc to cancel"),
        Sign(PERMISSION, DIALOG, r"^\s*Do you want to (proceed|make this edit|create|allow|delete|overwrite|run)\b"),
        Sign(PERMISSION, DIALOG, r"^\s*(Would you like to proceed|Waiting for permission|Claude wants to)\b"),
        Sign(PERMISSION, DIALOG, r"^\s*Esc to cancel · Tab to amend"),
        Sign(QUESTION, DIALOG, r"Is this a project you created or one you trust|Do you want to use this API key"),
        *COMMON_DIALOGS,
        # At work
        Sign(WORKING, FOOTER, r"\besc to interrupt\b"),
        Sign(WORKING, STATUS, r"^[·✢✳✶✻✽*] .*(…|\bRetrying\b)"),
        Sign(TOOL, TURN, r"^[●⏺ ] Running\b|^  ⎿\s+Running|^     \(ctrl\+b to run in background\)"),
        Sign(THINKING, STATUS, r"^[·✢✳✶✻✽*] .*(\(\d+\w* · thinking\)|\bRetrying\b)"),
        Sign(STREAMING, LAST, r"\A[●⏺]"),
        # Over
        Sign(
            ERROR,
            LAST,
            r"\A[●⏺] (API Error|Please run /login|Credit balance is too low|Invalid API key|Prompt is too long)",
        ),
        Sign(ERROR, LAST, r"^  ⎿\s+(API Error|Not logged in|Invalid API key|Credit balance|.*Please run /login)"),
    ),
)
