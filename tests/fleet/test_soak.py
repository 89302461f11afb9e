"""The fault soak, in the size that every change can afford."""

import json

import pytest

from tests.fleet.soak import Soak
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus

pytestmark = pytest.mark.long


async def test_nothing_is_lost_or_doubled_while_everything_is_killed_at_random(fleet: places.Fleet, bus: Bus) -> None:
    found = await Soak(bus, orders=30, nodes=2, pause=0.7).run(seconds=20)
    assert found["problems"] == [], json.dumps(found, indent=1)
    assert found["faults"], "how many depends on how soon the orders are done"
