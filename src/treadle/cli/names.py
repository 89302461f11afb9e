"""Names by which a command line is recognised, before anything heavy is imported."""

TERMINAL = (
    "run",
    "attach",
    "wall",
    "ls",
    "status",
    "send",
    "tail",
    "peek",
    "wait",
    "resize",
    "rename",
    "diff",
    "merge",
    "share",
    "kill",
    "clean",
    "replay",
    "explain",
    "detectors",
)
"""Commands that parse their own arguments; `treadle.cli.terminal` explains why."""
PRINT = frozenset(("-p", "--print", "--input-format"))
"""Options that mean a one-shot run. Programs that drive Claude Code leave out -p when they give the last one."""
