"""Orders given several times: who won is read off what they left."""

from typing import Any

import pytest

from tests.fleet.conftest import Start, give, spec
from treadle.errors import NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.review import races


def row(state: str = "done", verified: bool | None = True, files: int = 1, usd: float | None = 1.0) -> dict[str, Any]:
    return {"state": state, "verified": verified, "files": files, "usd": usd}


def test_done_and_verified_comes_before_small_and_cheap() -> None:
    best = [
        row(),
        row(usd=2.0),
        row(usd=None),
        row(files=3),
        row(files=0),
        row(verified=False),
        row(state="failed"),
    ]
    assert sorted(reversed(best), key=races._place) == best


async def test_a_race_is_found_by_any_of_its_orders(bus: Bus, start_node: Start) -> None:
    await start_node()
    one, two, alone = spec(race="r"), spec(race="r"), spec()
    await give(bus, one, two, alone)
    for each in (one, two, alone):
        await client.wait(bus, each.id, 60)
    found = await races.standings(bus, one.id)
    assert {each["order"] for each in found} == {one.id, two.id} and all(each["state"] == "done" for each in found)
    with pytest.raises(NotFound, match="in no race"):
        await races.standings(bus, alone.id)
