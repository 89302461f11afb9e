"""The soak of the train, in the size that every change can afford."""

import json
from pathlib import Path

import pytest

from tests.landing.soak import TrainSoak
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus

pytestmark = pytest.mark.long


async def test_the_branch_is_never_red_and_nothing_is_lost_while_everything_is_killed(
    fleet: places.Fleet, bus: Bus, tmp_path: Path
) -> None:
    soak = TrainSoak(bus, tmp_path, orders=4, check_seconds=0.1, flaky=0.0, pause=1.5)
    found = await soak.run(seconds=6)
    assert found["problems"] == [] and found["landed"] == 4, json.dumps(found, indent=1)
