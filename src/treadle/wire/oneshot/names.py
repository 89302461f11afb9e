"""Claude Code's names for tools that we have too, because programs that drive it use those names."""

OURS = {
    **{"Bash": "bash", "Read": "read_file", "Write": "write_file", "Edit": "edit_file", "MultiEdit": "multi_edit"},
    **{"Glob": "glob", "Grep": "grep", "WebFetch": "web_fetch", "Task": "task", "Agent": "task", "Skill": "skill"},
    **{"TodoWrite": "todo", "AskUserQuestion": "ask_user"},
}
"""Their name -> our name."""

THEIRS = {ours: theirs for theirs, ours in reversed(OURS.items())}
"""Our name -> their name; where they have two, the first."""

USED = {**THEIRS, "task": "Agent"}
"""The same in a call: the tool that `tools` of a session lists as Task is called Agent there."""
