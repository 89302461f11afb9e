"""`make soak-fleet`: an hour of faults, or SOAK_SECONDS; prints its figures."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from tests.fleet.conftest import bus, fleet, nothing_left  # noqa: F401
from tests.fleet.soak import Soak
from tests.soak.machines import Machines, possible
from treadle.errors import TreadleError
from treadle.fleet import layout, places
from treadle.fleet.bus import Bus


@pytest.mark.timeout(0)
async def test_an_hour_of_faults_loses_and_doubles_nothing(fleet: places.Fleet, bus: Bus) -> None:  # noqa: F811
    until = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "3600"))
    rounds = []
    while time.monotonic() < until:
        left = max(30.0, min(300.0, until - time.monotonic()))
        found = await Soak(bus, orders=500, nodes=3, pause=0.7, seed=len(rounds) + 1).run(left)
        rounds.append(found)
        print(json.dumps(found), flush=True)
        assert found["problems"] == []


@pytest.mark.timeout(0)
async def test_machines_networks_disks_clocks_and_servers_fail_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    if why := possible():
        pytest.skip(why)
    soak = Machines(tmp_path, orders=200, pause=1.5, seed=1)
    try:
        made = places.Fleet(url=soak.build(), private=False, lease=soak.node_lease, replicas=3)
        connected = await ready(made)
        try:
            found = await soak.run_on(connected, float(os.environ.get("SOAK_SECONDS", "600")))
        finally:
            await connected.close()
    finally:
        soak.tear_down()
    print(json.dumps(found), flush=True)
    assert found["problems"] == []


async def ready(made: places.Fleet) -> Bus:
    """As soon as the servers have found each other and the streams are there."""
    until = time.monotonic() + 60
    while True:
        try:
            connected = await Bus.connect(made.address("admin"), name="soak")
            try:
                await layout.ensure(connected, replicas=3, lease=made.lease)
                return connected
            except TreadleError:
                await connected.close()
                raise
        except TreadleError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.3)
