"""Names by which a command line is recognised, before anything heavy is imported."""

TERMINAL = {
    "run": "run",
    "attach": "attach",
    "wall": "wall",
    "ls": "ls",
    "status": "status",
    "send": "send",
    "tail": "tail",
    "peek": "peek",
    "wait": "wait",
    "resize": "resize",
    "rename": "rename",
    "diff": "diff",
    "merge": "merge",
    "share": "share",
    "kill": "kill",
    "clean": "clean",
    "replay": "replay",
    "explain": "explain",
    "detectors": "detectors",
}
"""Commands that parse their own arguments, and the module of `treadle.cli.terminal` that each is in."""
PRINT = frozenset(("-p", "--print", "--input-format"))
"""Options that mean a one-shot run. Programs that drive Claude Code leave out -p when they give the last one."""
