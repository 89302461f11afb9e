"""Treadle drives, supervises and coordinates coding agents: any agent, over any wire, to the end.

The names below are the whole public Python API. They load on first use, so importing treadle costs nothing; type
checkers find them in `__init__.pyi`.
"""

__version__ = "0.3.0"

_NAMES = {
    "treadle.library.conversation": """
        Conversation Result TypedResult open query run
        OnAsk SessionOptions
        tool
    """,
    "treadle.goals.commands": """
        goal
    """,
    "treadle.agents": """
        find_agent
    """,
    "treadle.sessions.totals": """
        Totals TurnSummary run_turn totals
    """,
    "treadle.doors.oneshot.run": """
        create_headless_runner create_headless_transport
    """,
    "treadle.session": """
        Access Agent AgentInfo Answer Change CommandInfo CommandResult Confinement
        Decision Guards Instructions Limits Mode OwnProgram OwnTool Prompt
        Reasoning Rules Session SessionSpec Start Subagent Toolset Use
    """,
    "treadle.events": """
        Answered AnyEvent Asked Closed CommandRun ContextCompacted ContextHandoff ContextPruned
        ErrorInfo Event Failed FileChanged Message ModelRouted Retrying Task
        TaskChanged TaskGroup TaskGroupChanged TextDelta ThinkingDelta ToolDenied ToolEnded ToolOutput
        ToolStarted TurnEnded TurnStarted Usage Warned
    """,
    "treadle.io.process.loop": """
        hold_secrets
    """,
    "treadle.errors": """
        TreadleError
    """,
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_WHERE]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
