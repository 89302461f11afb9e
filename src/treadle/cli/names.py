"""What a command line is told apart by, before anything heavy is imported."""

TERMINAL = (
    "run",
    "attach",
    "ls",
    "status",
    "send",
    "tail",
    "peek",
    "wait",
    "resize",
    "rename",
    "kill",
    "clean",
    "replay",
    "explain",
)
"""Commands that parse their own arguments, as `treadle.cli.terminal` says."""
PRINT = frozenset(("-p", "--print", "--input-format"))
"""What makes a command line a one-shot run. The last one: what drives Claude Code leaves out -p when it sends it."""
