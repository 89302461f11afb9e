"""`make soak-fleet`: an hour of faults, or SOAK_SECONDS; prints its figures."""

import json
import os
import time

import pytest

from tests.fleet.conftest import bus, fleet, nothing_left  # noqa: F401
from tests.fleet.soak import Soak
from treadle.fleet import places
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
