"""`make soak-train`: 300 orders (ORDERS=N) land under kills while a person pushes; then the serial policy beside it.

Both end by themselves within 36 minutes (MINUTES=N) and account for every order.
"""

import json
import os
from pathlib import Path

import pytest

from tests.fleet.conftest import bus, fleet, nothing_left  # noqa: F401
from tests.landing.soak import TrainSoak
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.train import Policy

ORDERS = int(os.environ.get("SOAK_ORDERS", "300"))
SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "36"))
PARTS = 8
"""Of the file that 30 % of the orders change: so one pair in eight conflicts."""
PAUSE = 10.0
"""Seconds between two faults. What conflicts in one file is helped one at a time, often by the only runner that lives
then: struck every 5 s, it hardly ever comes to its end."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("policy", "orders", "share"), [("auto", ORDERS, 0.78), ("serial", max(10, ORDERS // 15), 0.12)]
)
async def test_at_least_nine_in_ten_land_without_a_person_and_the_branch_is_never_red(
    fleet: places.Fleet,  # noqa: F811
    bus: Bus,  # noqa: F811
    tmp_path: Path,
    policy: Policy,
    orders: int,
    share: float,
) -> None:
    """`share` of the time is for the orders; the rest is for looking at every commit of the branch."""
    made = TrainSoak(bus, tmp_path, orders=orders, policy=policy, pause=PAUSE, parts=PARTS)
    found = await made.run(SECONDS, most=share * SECONDS)
    print(json.dumps(found, indent=1), flush=True)
    assert found["problems"] == []
    assert policy == "serial" or found["landed"] >= 0.9 * orders, "the serial policy is only there to compare"
