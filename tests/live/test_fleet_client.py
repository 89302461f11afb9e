"""The fleet's contract from Go, whose compiler is not everywhere; Python and Node.js are in `make test`."""

import os
import subprocess
from pathlib import Path

from tests.cli.fleet.commands import fleet
from tests.cli.fleet.conftest import nothing_left, running  # noqa: F401
from tests.conftest import need
from tests.drivers.programs import HOME
from treadle.fleet.engine import places


def test_a_program_in_go_gives_an_order_and_waits_for_it(running: None) -> None:  # noqa: F811
    address = places.load().address("submit")
    url = address.url.replace("nats://", f"nats://submit:{address.password}@")
    argv = [need("go"), "run", "fleet_client.go", url, "x", "null"]
    env = {**os.environ, "HOME": str(HOME)}  # where its cache is
    done = subprocess.run(
        argv, cwd=Path(__file__).parents[2] / "examples", env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0 and "ended: done" in done.stdout, done.stdout + done.stderr
    fleet("down")
