"""The native agent's tools, one file each. Naming them costs no import: a light module."""

BUILTIN = (
    "read_file",
    "write_file",
    "edit_file",
    "multi_edit",
    "glob",
    "grep",
    "bash",
    "web_fetch",
    "ask_user",
    "task",
    "todo",
    "skill",
)
