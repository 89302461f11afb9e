"""Ways to an engine."""

import os
import signal

from tests.fleet.conftest import await_gone
from treadle.fleet.engine import places, server


def restart(fleet: places.Fleet) -> None:
    """Kill the engine and start it again."""
    found = server.running()
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)
    await_gone(found.pid)
    server.start(fleet)
