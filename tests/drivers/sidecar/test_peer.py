"""A sidecar that is started and ended. What it can do wrong in a run is tried with `treadle.testing.bad_sidecar`."""

import sys

import pytest

from treadle.drivers.sidecar.peer import SidecarPeer
from treadle.errors import NotFound


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-sidecar"):
        await SidecarPeer.spawn(["no-such-sidecar"], env={"PATH": "/usr/bin"}, cwd="/")


async def test_closing_twice_is_closing_once() -> None:
    peer = await SidecarPeer.spawn([sys.executable, "-c", "import time; time.sleep(600)"], env={}, cwd="/")
    await peer.close()
    await peer.close()
    assert peer.child.exit_code is not None
