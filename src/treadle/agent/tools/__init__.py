"""The native agent's tools. This module is light: naming the tools imports none of them."""

TOOLS = {
    "read_file": "treadle.agent.tools.file_tools:READ_FILE",
    "write_file": "treadle.agent.tools.file_tools:WRITE_FILE",
    "edit_file": "treadle.agent.tools.file_tools:EDIT_FILE",
    "glob": "treadle.agent.tools.search:GLOB",
    "grep": "treadle.agent.tools.search:GREP",
    "bash": "treadle.agent.tools.bash:BASH",
    "web_fetch": "treadle.agent.tools.web_fetch:WEB_FETCH",
    "ask_user": "treadle.agent.tools.session_tools:ASK_USER",
    "task": "treadle.agent.tools.session_tools:TASK",
    "todo": "treadle.agent.tools.session_tools:TODO",
    "skill": "treadle.agent.tools.session_tools:SKILL",
    "tool_search": "treadle.agent.tools.tool_search:TOOL_SEARCH",
}
"""Every tool, and the object that is it."""
BUILTIN = tuple(TOOLS)[:-1]
"""All but the search, the last, which is offered when there are too many others."""
