"""Commands that a warm parent (`io.process.warm`) runs faster than this process, which has loaded nothing yet."""

AGENT = "agent"
"""The name of the warm parent that `treadle warm` starts, for runs and workers."""
PRELOAD = ("treadle.cli.preload:preload",)
DECLINED = -1
"""The command is not for a copy of the warm parent; nothing has been done."""
QUICK = frozenset(("ls", "status"))
MODULES = (
    *("ctypes", "json", "signal", "treadle.cli.parser", "treadle.cli.preload"),
    *("treadle.cli.terminal.start", "treadle.cli.terminal.status", "treadle.terminal.launch"),
    *("treadle.terminal.supervisor", "treadle.terminal.client", "treadle.terminal.sequences"),
    *("treadle.terminal.grid", "treadle.terminal.judge", "treadle.terminal.history"),
    *("treadle.terminal.detectors:preload", "treadle.terminal.rehearsal:rehearse"),
)


def run_warm(name: str, arguments: list[str]) -> int | None:
    """The exit code of a command that a copy of the warm parent ran; None when no one has run it yet."""
    starts = name == "run" and "--detach" in arguments
    if not starts and (name not in QUICK or "--watch" in arguments):
        return None
    from treadle.io.process import warm

    code = warm.run("treadle.cli.preload", "terminal", [name, arguments], start=MODULES if starts else ())
    return None if code == DECLINED else code


def run_once(arguments: list[str]) -> int | None:
    """The exit code of `treadle -p ...` run by a copy of the warm parent; None when there is no warm parent."""
    from treadle.io.process import warm

    if not warm.there_is(AGENT):
        return None
    return warm.run("treadle.cli.preload", "once", [arguments], name=AGENT, tied=True)


def run_worker() -> int | None:
    """The same for a worker. Where several run already, a warm parent is started for the next."""
    from treadle.io.process import warm

    if warm.there_is(AGENT):
        return warm.run("treadle.cli.preload", "work", [], name=AGENT, tied=True)
    if not warm.pays(warm.WORKERS):
        return None
    return warm.run("treadle.cli.preload", "work", [], start=PRELOAD, name=warm.WORKERS, tied=True)
