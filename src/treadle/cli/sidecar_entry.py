"""`treadle-sidecar`: an executable for control planes that start a sidecar without arguments."""

from treadle.cli import as_process, serve_as


def main() -> None:
    as_process(lambda: serve_as("sidecar", serve))


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
