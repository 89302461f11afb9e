"""The soak of goals, in the size that every change can afford."""

import json
from pathlib import Path

import pytest

from tests.goals.soak import GoalSoak
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus

pytestmark = pytest.mark.long


async def test_every_goal_ends_or_asks_within_its_budget_while_everything_is_killed(
    fleet: places.Fleet, bus: Bus, tmp_path: Path
) -> None:
    kinds = ("tokens run out", "person never answers", "planner talks nonsense")
    found = await GoalSoak(bus, tmp_path, goals=3, orders=3, kinds=kinds, pause=1.5).run(seconds=4)
    assert found["problems"] == [] and found["asking"] == 1, json.dumps(found, indent=1)
