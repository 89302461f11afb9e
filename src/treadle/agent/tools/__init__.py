"""The native agent's tools. This module is light: naming the tools imports none of them."""

MODULES = {
    "read_file": "file_tools",
    "write_file": "file_tools",
    "edit_file": "file_tools",
    "multi_edit": "file_tools",
    "glob": "search",
    "grep": "search",
    "bash": "bash",
    "web_fetch": "web_fetch",
    "ask_user": "session_tools",
    "task": "session_tools",
    "todo": "session_tools",
    "skill": "session_tools",
    "apply_patch": "apply_patch",
    "tool_search": "tool_search",
}
"""Every tool and its module here, in which it is the constant of its name: `READ_FILE`."""
INSTEAD = ("apply_patch",)
"""Offered in the place of others, by the model."""
BUILTIN = tuple(MODULES)[:-2]
"""All but the last two, which are offered on conditions of their own."""
