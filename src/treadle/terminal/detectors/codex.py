"""Codex. While it streams an answer, its screen looks idle with growing text: only title and reports show work."""

from treadle.terminal.detectors import BRAILLE, COMMON_DIALOGS, Box, Detector, Sign

BUSY = r"^[•◦] (?!Running |Ran )\S.*(\(\d+\w*( \d+\w*)* • esc to interrupt\)|\(\d+\w*( \d+\w*)* • .*…)"

MODEL_LINE = r"^  \S.* · [~/…]"

DETECTOR = Detector(
    "codex",
    known_by=(
        r"^\[ [!.] \] Action Required",
        r"^ *>_ OpenAI Codex\b",
        r"Welcome to Codex\b",
        r"^› Ask Codex to do anything",
        r"Trust this folder\? Codex can",
    ),
    box=Box(
        "",
        r"[›!](\s|$)",
        "",
        unless=r"› ?\d+\. ",
        under=rf"\? for shortcuts|again to (quit|exit)|context left|{MODEL_LINE}",
    ),
    prompt=r"› \S",
    block=r"[•◦■⚠✔✗✘] |  Worked for ",
    skip=r"  Worked for \S",
    ready=MODEL_LINE,
    settle_ms=1500,
    placeholder=r"Ask Codex to do anything",
    suggests=True,
    # Otherwise the first session starts a server that all sessions of this CODEX_HOME use, and ends with it.
    alone=("-c", "features.daemon_auto_start=false"),
    signs=(
        Sign("permission", "title", r"^\[ [!.] \] Action Required"),
        Sign("working", "title", rf"^{BRAILLE} "),
        Sign("idle", "title", r"^\S"),
        # Dialogs
        Sign("question", "dialog", r"^\s*Question \d+/\d+ \(\d+ unanswered\)"),
        Sign("question", "dialog", r"^\s*tab to add notes \| enter to submit"),
        Sign("question", "dialog", r"Trust this folder\?|Sign in with ChatGPT|Paste or type your API key"),
        Sign("permission", "dialog", r"^\s*Would you like to (run|make|apply|grant|allow)\b"),
        Sign("permission", "dialog", r"^\s*Press enter to confirm or esc to (cancel|go back)"),
        Sign("permission", "dialog", r"\b(needs|wants|would like) your (approval|permission)\b"),
        *COMMON_DIALOGS,
        # At work
        Sign("working", "status", BUSY),
        Sign("tool_use", "turn", r"^[•◦] (Running|Calling|Searching the web)\b"),
        Sign("thinking", "status", BUSY),
        Sign("thinking", "last", r"\A[•◦] .*…\s*\Z"),
        Sign("thinking", "last", r"\A([•◦] (Ran|Exited|Explored|Edited|Called|Added|Updated|Read|Searched)\b|[✔✗✘])"),
        Sign("streaming", "last", r"\A[•◦] "),
        # Over
        Sign("error", "last", r"\A■ (?!Conversation interrupted)"),
    ),
)
