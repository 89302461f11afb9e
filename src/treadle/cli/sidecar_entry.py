"""`treadle-sidecar`: one executable for control planes that start a sidecar without arguments."""

from __future__ import annotations

import os
import sys

from treadle.io.standard import fill_gaps


def main() -> None:
    fill_gaps()
    if len(sys.argv) == 1:
        sys.exit(serve(os.environ.get("TREADLE_AGENT") or "native"))
    from treadle.cli.sidecar import sidecar

    sidecar(prog_name="treadle-sidecar")


def serve(agent: str, *, sandbox: bool = False) -> int:
    """Be a sidecar on our own stdin and stdout until there are no more orders; the exit code."""
    from treadle.agents import find_agent
    from treadle.cli import serving
    from treadle.doors.sidecar.door import Sidecar
    from treadle.errors import TreadleError
    from treadle.io import sandbox as confine
    from treadle.io.paths import here
    from treadle.settings import config

    def warn(message: str) -> None:
        print(f"treadle-sidecar: {message}", file=sys.stderr, flush=True)

    try:
        # It starts the process again, so nothing may have been read or said yet.
        if sandbox or config.load(here()).settings.sandbox:
            confine.enter(here())
        return serving.serve(lambda stream: Sidecar(find_agent(agent), stream, warn=warn).run())
    except TreadleError as error:
        warn(str(error))
        return 2
