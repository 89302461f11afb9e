"""`make soak-goals`: 20 goals (GOALS=N) of 8 orders at once, under kills, with all that can go wrong around them."""

import json
import os
from pathlib import Path

import pytest

from tests.fleet.conftest import bus, fleet, nothing_left  # noqa: F401
from tests.goals.soak import GoalSoak
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus

GOALS = int(os.environ.get("SOAK_GOALS", "20"))


@pytest.mark.timeout(0)
async def test_every_goal_is_met_stopped_or_asking_none_hangs_and_the_branch_is_never_red(
    fleet: places.Fleet,  # noqa: F811
    bus: Bus,  # noqa: F811
    tmp_path: Path,
) -> None:
    found = await GoalSoak(bus, tmp_path, goals=GOALS).run(seconds=60.0 * GOALS)
    print(json.dumps(found), flush=True)
    assert found["problems"] == []
