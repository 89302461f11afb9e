"""A sidecar that is started and ended. What it can do wrong in a run is tried with `treadle.testing.bad_sidecar`."""

import asyncio
import os
import sys

import pytest

from treadle.drivers.sidecar.peer import SidecarPeer
from treadle.errors import NotFound
from treadle.io.process import table


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-sidecar"):
        await SidecarPeer.spawn(["no-such-sidecar"], env={"PATH": "/usr/bin"}, cwd="/")


async def test_closing_twice_is_closing_once() -> None:
    peer = await SidecarPeer.spawn([sys.executable, "-c", "import time; time.sleep(600)"], env={}, cwd="/")
    await asyncio.gather(peer.close(), peer.close())
    assert peer.gone and table.look(peer.child.pid) is None
    pipes = [end for _ in range(5) for end in os.pipe()]  # they get the numbers that were free
    await peer.close()
    for end in pipes:
        os.close(end)  # fails when the peer has closed it again
