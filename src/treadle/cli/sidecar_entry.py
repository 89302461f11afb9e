"""`treadle-sidecar`: an executable for control planes that start a sidecar without arguments."""

import os
import sys

from treadle.cli import as_process


def main() -> None:
    as_process(_main)


def _main() -> int | None:
    from treadle.io.process.lifetime import fill_gaps

    fill_gaps()
    if len(sys.argv) == 1:
        return serve(os.environ.get("TREADLE_AGENT") or "native")
    from treadle.cli.root import COMMANDS, load

    load(COMMANDS["sidecar"])(prog_name="treadle-sidecar")
    return None


def serve(agent: str, *, sandbox: bool | None = None, network: str | None = None) -> int:
    """Be a sidecar on stdin and stdout until there are no more orders. Returns the exit code."""
    from treadle.agents import find_agent
    from treadle.cli import serving
    from treadle.cli.options import confinement
    from treadle.doors.sidecar.door import Sidecar
    from treadle.errors import TreadleError
    from treadle.io.paths import here

    warn = serving.warner("treadle-sidecar")
    try:
        here()
        offered = find_agent(agent, confinement=confinement(sandbox, network))
        return serving.serve(lambda stream: Sidecar(offered, stream, warn=warn).run())
    except TreadleError as error:
        warn(str(error))
        return 2
