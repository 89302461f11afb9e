"""Commands that a warm parent (`io.process.warm`) runs faster than this process, which has loaded nothing yet."""

PRELOAD = ("treadle.cli.preload:preload",)
DECLINED = -1
"""The command is not for a copy of the warm parent; nothing has been done."""
QUICK = frozenset(("ls", "status"))
MODULES = (
    *("ctypes", "json", "signal", "argparse", "treadle.cli.preload"),
    *("treadle.cli.terminal.start", "treadle.cli.terminal.status", "treadle.terminal.launch"),
    *("treadle.terminal.supervisor", "treadle.terminal.client", "treadle.terminal.sequences"),
    *("treadle.terminal.grid", "treadle.terminal.judge", "treadle.terminal.history"),
    *("treadle.terminal.detectors:preload", "treadle.terminal.rehearsal:rehearse"),
)


def run_warm(name: str, arguments: list[str]) -> int | None:
    """The exit code of a command that a copy of the warm parent ran; None when no one has run it yet."""
    # A worktree is made by code that the lean parent cannot load.
    starts = name == "run" and "--detach" in arguments and "--worktree" not in arguments
    if not starts and (name not in QUICK or "--watch" in arguments):
        return None
    from treadle.io.process import warm

    code = warm.run("treadle.cli.preload", "terminal", [name, arguments], start=MODULES if starts else ())
    return None if code == DECLINED else code


def run_worker() -> int | None:
    """The exit code of a worker that is a copy. Where several run already, a warm parent is started for the next."""
    from treadle.io.process import warm

    if not warm.pays(warm.WORKERS):
        return None
    return warm.run("treadle.cli.preload", "work", [], start=PRELOAD, name=warm.WORKERS, tied=True)
