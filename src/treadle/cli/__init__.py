"""The command line. What people run in loops answers here, before anything heavy is imported."""

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from treadle import __version__

        print(f"treadle {__version__}")
        return
    from treadle.cli.root import main as run

    run(arguments)
