"""Commands that a warm parent (`io.process.warm`) does faster than we, who have loaded nothing yet."""

from __future__ import annotations

DECLINED = -1
"""It is not for a copy of the warm parent: nothing has been done."""
QUICK = frozenset(("ls", "status"))
MODULES = (
    *("ctypes", "json", "signal", "treadle.cli.parser", "treadle.cli.warm"),
    *(f"treadle.cli.terminal.{name}" for name in ("run", "ls", "status")),
    *(f"treadle.terminal.{name}" for name in ("launch", "supervisor", "summary", "client")),
    *(f"treadle.terminal.{name}" for name in ("sequences", "grid", "judge", "history")),
    *(f"treadle.terminal.detectors.{name}" for name in ("claude", "codex", "copilot", "gemini")),
    *(f"treadle.terminal.detectors.{name}" for name in ("kimi", "opencode", "pi", "qwen")),
)


def run_warm(name: str, arguments: list[str]) -> int | None:
    """The exit code of a command that a copy of the warm parent has done; None when it is still to be done."""
    starts = name == "run" and "--detach" in arguments
    if not starts and (name not in QUICK or "--watch" in arguments):
        return None
    from treadle.io.process import warm

    code = warm.run("treadle.cli.warm", "main", [name, arguments], start=MODULES if starts else ())
    return None if code == DECLINED else code


def main(name: str, arguments: list[str]) -> int:
    """Do it, in a copy of the warm parent."""
    from treadle.cli.terminal import main as run_terminal
    from treadle.cli.terminal.run import attaches

    if name == "run" and attaches(arguments):
        return DECLINED  # it needs a process of the terminal that it attaches
    return run_terminal(name, arguments)
