"""Claude Code. Its title is the same when it is idle and when it asks; only its screen and OSC 7501 differ."""

from treadle.terminal.detectors import COMMON_DIALOGS, RULE, Box, Detector, Sign

DETECTOR = Detector(
    "claude",
    known_by=(r"^(\S )?Claude Code$", r"\bClaude Code v\d", r"Claude Code'll be able to", r"ANTHROPIC_API_KEY: sk"),
    box=Box(RULE, r"[❯>!#&](\s|$)", RULE, unless=r"[❯>] ?\d+\. "),
    prompt=r"[❯>!#]\s\S",
    block=r"[●⏺]|  ⎿\s|  (Ran|Running|Read|Thought|No result|Searched|Listed|Wrote|Updated)\b|[❯>]\s",
    skip=r"\s+◐? ?\w+ · /effort",
    end=r"[✻✽✶✢✳·*] \S",
    placeholder=r'Try ".*',
    signs=(
        Sign("working", "title", r"^[◐◑◒◓⠀-⣿] "),
        Sign("idle", "title", r"^[✳✻✶✢] Claude Code$"),
        # Dialogs
        Sign("question", "dialog", r"^\s*Enter to select · .*Esc to cancel"),
        Sign(
            "permission", "dialog", r"^\s*Do you want to (proceed|make this edit|create|allow|delete|overwrite|run)\b"
        ),
        Sign("permission", "dialog", r"^\s*(Would you like to proceed|Waiting for permission|Claude wants to)\b"),
        Sign("permission", "dialog", r"^\s*Esc to cancel · Tab to amend"),
        Sign("question", "dialog", r"Is this a project you created or one you trust|Do you want to use this API key"),
        *COMMON_DIALOGS,
        # At work
        Sign("working", "footer", r"\besc to interrupt\b"),
        Sign("working", "status", r"^[·✢✳✶✻✽*] .*(…|\bRetrying\b)"),
        Sign("tool_use", "turn", r"^[●⏺ ] Running\b|^  ⎿\s+Running|^     \(ctrl\+b to run in background\)"),
        Sign("thinking", "status", r"^[·✢✳✶✻✽*] .*(\(\d+\w* · thinking\)|\bRetrying\b)"),
        Sign("streaming", "last", r"\A[●⏺]"),
        # Over
        Sign(
            "error",
            "last",
            r"\A[●⏺] (API Error|Please run /login|Credit balance is too low|Invalid API key|Prompt is too long)",
        ),
        Sign("error", "last", r"^  ⎿\s+(API Error|Not logged in|Invalid API key|Credit balance|.*Please run /login)"),
    ),
)
