"""The command line. A command parses, calls one function of a room below and prints; what it does is not here.

Words:
    small command  one that people and hooks run in loops: answered before click is imported. What it takes is declared
                   once (`arguments.Small`); `arguments` reads it for a run, click for completion
    warm parent    a loaded process that forks a copy for a terminal (`io.process.warm`)
    choice         which agent and model a run uses: given, remembered, or found on this machine
    render         making text of agents safe to show on a terminal

Flow: `main` below answers `--version`, then the commands for terminals, then `coord hook`, because each import costs
more than they do. Everything else goes to `root`, the tree of commands: one line per command, whose module is imported
when it is used. `options` makes the SessionSpec that all ways of running an agent share.

    chat        `treadle`: the conversation on a terminal
    oneshot     `treadle -p` and `exec`; doors   the commands that offer an agent to another program
    terminal    the commands for terminals; heimdall   the commands for coordination; both light
    fleet       `treadle fleet`, `goal`, `land`, `blame`, `demo`, `top`
    worker_entry, sidecar_entry   executables for programs that start us without arguments

Promises, and who keeps each:
    A small command loads nothing heavy.                                                  __init__, terminal, heimdall
    Missing standard streams are filled before anything is opened.                        __init__
    Text from agents reaches the terminal without control sequences.                      render
    `--json` means the same for every command.                                            as_json
    Secrets are removed from logs.                                                        logs
    Help and completion come from the commands themselves.                                help

Nothing imports it but the entry points and the warm parent. It may import every room except `testing`.
"""

import os
import sys

TYPE_CHECKING = False  # not from `light`: a Ctrl-C during an import of this module could not be caught
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

DECLINED = -1
"""The command is not for a copy of the warm parent; nothing has been done."""
QUICK = frozenset(("ls", "status"))
LOADED = (
    *("ctypes", "json", "signal", "treadle.cli"),
    *("treadle.cli.terminal.start", "treadle.cli.terminal.status", "treadle.terminal.launch"),
    *("treadle.terminal.supervisor", "treadle.terminal.client", "treadle.terminal.sequences"),
    *("treadle.terminal.grid", "treadle.terminal.judge", "treadle.terminal.history"),
    "treadle.terminal.detectors:preload",
)


def main() -> None:
    """Run the command that was typed, then end this process."""
    as_process(_main)


def as_process(command: "Callable[[], int | None]") -> "NoReturn":
    """Run this and end the process. Ctrl-C at any point from here on prints no traceback."""
    try:
        from treadle.io.process import lifetime
    except KeyboardInterrupt:
        os._exit(130)  # nothing has been opened or written yet
    lifetime.run(command)


def serve_as(name: str, serve: "Callable[[str], int]") -> int | None:
    """What an executable for programs does that start one without arguments; with some it is the command `name`."""
    from treadle.io.process.lifetime import fill_gaps

    fill_gaps()
    if len(sys.argv) == 1:
        return serve(os.environ.get("TREADLE_AGENT") or "native")
    from treadle.cli.root import COMMANDS, load

    load(COMMANDS[name])(prog_name=f"treadle-{name}")
    return None


def _main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from treadle import __version__

        print(f"treadle {__version__}")
        return
    from treadle.io.process.lifetime import fill_gaps

    fill_gaps()
    from treadle.cli.arguments import COMPLETE, TERMINAL

    if COMPLETE in os.environ:
        from treadle.cli.help import complete

        return complete("treadle")
    if arguments[:1] == ["--config"] and arguments[2:3] and arguments[2] in TERMINAL:  # as hm has it
        arguments = [arguments[2], *arguments[:2], *arguments[3:]]
    if arguments and arguments[0] in TERMINAL:
        if (code := run_warm(arguments[0], arguments[1:])) is not None:
            sys.exit(code)
        from treadle.cli.terminal import main as run_terminal

        sys.exit(run_terminal(arguments[0], arguments[1:]))
    if arguments[:2] == ["coord", "hook"]:  # runs before each tool call of an outside agent, so it must be fast
        from treadle.cli.heimdall.dispatch import run as run_heimdall

        sys.exit(run_heimdall("hook", arguments[2:]))
    from treadle.cli.root import main as run

    run(arguments)


# Commands that a warm parent runs faster than this process, which has loaded nothing yet...


def run_warm(name: str, arguments: list[str]) -> int | None:
    """The exit code of a command that a copy of the warm parent ran; None when no one has run it yet."""
    # A worktree is made by code that the lean parent cannot load.
    starts = name == "run" and "--detach" in arguments and "--worktree" not in arguments
    if not starts and (name not in QUICK or "--watch" in arguments):
        return None
    from treadle.io.process import warm

    code = warm.run("treadle.cli", "run_copied", [name, arguments], start=LOADED if starts else ())
    return None if code == DECLINED else code


def run_copied(name: str, arguments: list[str]) -> int:
    """A command for terminals, in a copy."""
    from treadle.cli.terminal import main as run_terminal
    from treadle.cli.terminal.start import attaches

    if name == "run" and attaches(arguments):
        return DECLINED  # it needs a process of the terminal that it attaches
    return run_terminal(name, arguments)
