"""Claude Code's names for the tools that we have too: programs that drive it use those."""

OURS = {
    **{"Bash": "bash", "Read": "read_file", "Write": "write_file", "Edit": "edit_file", "MultiEdit": "multi_edit"},
    **{"Glob": "glob", "Grep": "grep", "WebFetch": "web_fetch", "Task": "task", "Agent": "task", "Skill": "skill"},
    **{"TodoWrite": "todo", "AskUserQuestion": "ask_user"},
}
"""Theirs -> ours."""

THEIRS = {ours: theirs for theirs, ours in reversed(OURS.items())}
"""Ours -> theirs; of two names the first."""
