"""The command line. What people run in loops answers here, before anything heavy is imported."""

import sys

TERMINAL = "run attach ls status send tail peek wait resize kill clean replay"
LIGHT = dict.fromkeys(TERMINAL.split(), "treadle.cli.terminal")
"""Commands that parse their own arguments -> a module with `main(name, arguments) -> exit code`."""


def main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from treadle import __version__

        print(f"treadle {__version__}")
        return
    from treadle.io.standard import fill_gaps

    fill_gaps()
    if arguments and (place := LIGHT.get(arguments[0])):
        sys.exit(__import__(place, fromlist=["main"]).main(arguments[0], arguments[1:]))
    from treadle.cli.root import main as run

    run(arguments)
