"""Claude Code's tools: what each will touch, and our names for them."""

from typing import Any

from treadle.events import ToolKind
from treadle.policy.guess import access_of
from treadle.session import Access
from treadle.wire.oneshot.arguments import THEIRS

KINDS: dict[str, ToolKind] = {
    "Bash": "execute",
    **dict.fromkeys(("Read", "NotebookRead", "Glob", "Grep", "LS"), "read"),
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), "write"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "network"),
}
INWARD = {
    *("Task", "Agent", "TodoWrite", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "Skill", "ToolSearch"),
    *("TaskStop", "TaskOutput", "BashOutput", "KillShell", "ListAgents", "ReportFindings", "ListMcpResourcesTool"),
}
"""Tools that change only the conversation: rules may name them, modes do not apply to them."""
_PATHS = ("file_path", "notebook_path", "path")


def claude_name(tool: str) -> str:
    """Claude Code's name for a tool of ours that it has too."""
    return THEIRS.get(tool, tool)


def about(name: str, args: Any) -> Access:
    """What a call will touch, with paths as they were written."""
    if name in INWARD:
        return Access(tool=name, kind="read", args=args)
    if name not in KINDS or not isinstance(args, dict):
        return access_of(name, args)
    paths = tuple(args[key] for key in _PATHS if isinstance(args.get(key), str))
    command, url = args.get("command"), args.get("url")
    return Access(
        tool=name,
        kind=KINDS[name],
        paths=paths if name != "Bash" else (),
        command=command if name == "Bash" and isinstance(command, str) else None,
        url=url if isinstance(url, str) else None,
        args=args,
    )
