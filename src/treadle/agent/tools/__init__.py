"""The native agent's tools, one file each. This module is light: naming the tools imports none of them."""

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
INSTEAD = ("apply_patch",)
"""Offered in the place of others, by the model."""
