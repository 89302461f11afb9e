"""`make soak-fleet`: an hour of faults, or MINUTES=N; prints its figures. A quarter of it is for whole machines."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from tests.fleet.conftest import bus, fleet, nothing_left  # noqa: F401
from tests.fleet.soak import Soak, quantiles
from tests.soak.machines import Machines, possible
from treadle.errors import TreadleError
from treadle.fleet.engine import layout, places
from treadle.fleet.engine.bus import Bus

SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))


@pytest.mark.timeout(0)
async def test_an_hour_of_faults_loses_and_doubles_nothing(fleet: places.Fleet, bus: Bus) -> None:  # noqa: F811
    until = time.monotonic() + SECONDS * 3 / 4
    soaks: list[Soak] = []
    while time.monotonic() < until:
        left = max(30.0, min(300.0, until - time.monotonic()))
        soaks.append(Soak(bus, orders=500, nodes=3, pause=0.7, seed=len(soaks) + 1))
        found = await soaks[-1].run(left)
        print(json.dumps(found), flush=True)
        assert found["problems"] == []
    print("all rounds:", json.dumps(quantiles([each for soak in soaks for each in soak.takeovers])), flush=True)


@pytest.mark.timeout(0)
async def test_machines_networks_disks_clocks_and_servers_fail_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    if why := possible():
        pytest.skip(why)
    soak = Machines(tmp_path, orders=200, pause=1.5, seed=1)
    try:
        made = places.Fleet(url=soak.build(), private=False, lease=soak.node_lease, replicas=3)
        connected = await ready(made)
        try:
            found = await soak.run_on(connected, SECONDS / 4)
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
