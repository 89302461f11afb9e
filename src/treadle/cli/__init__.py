"""The command line. Commands that people run in loops are answered here, before anything heavy is imported.

A command parses, calls one function below and prints: what it does is not here.
"""

import sys


def main() -> None:
    """Run the command that was typed, then end this process."""
    from treadle.io.process import lifetime

    lifetime.begin()
    try:
        _main()
        lifetime.leave(0)
    except KeyboardInterrupt:  # Ctrl-C before there was anything to interrupt
        lifetime.leave(130)
    except SystemExit as ended:
        lifetime.leave_by(ended)


def _main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from treadle import __version__

        print(f"treadle {__version__}")
        return
    from treadle.io.standard_streams import fill_gaps

    fill_gaps()
    from treadle.cli.arguments import TERMINAL

    if arguments[:1] == ["--config"] and arguments[2:3] and arguments[2] in TERMINAL:  # as hm has it
        arguments = [arguments[2], *arguments[:2], *arguments[3:]]
    if arguments and arguments[0] in TERMINAL:
        from treadle.cli.warm import run_warm

        if (code := run_warm(arguments[0], arguments[1:])) is not None:
            sys.exit(code)
        from treadle.cli.terminal import main as run_terminal

        sys.exit(run_terminal(arguments[0], arguments[1:]))
    if arguments[:2] == ["coord", "hook"]:  # runs before each tool call of an outside agent, so it must be fast
        from treadle.cli.heimdall import run as run_heimdall

        sys.exit(run_heimdall("hook", arguments[2:]))
    from treadle.cli.root import main as run

    run(arguments)
