"""Orders given several times: who won is read off what they left."""

from typing import Any

import pytest

from treadle.errors import NotFound
from treadle.fleet import results
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, Used


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
    assert sorted(reversed(best), key=results._place) == best


async def test_a_race_is_found_by_any_of_its_orders_and_its_best_is_first(bus: Bus) -> None:
    used = Used(input_tokens=7, usd=0.5)
    result = {"verified": True, "files": 2, "stat": "+1"}
    rows = (("a", "r", "failed", {}), ("b", "r", "done", result), ("c", "other", "done", {}), ("d", "", "done", {}))
    for name, race, state, left in rows:
        await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", agent="codex", race=race)))
        order = Order(id=name, state=state, changed=1.0, used=used, result=left)  # type: ignore[arg-type]
        await bus.put(f"order.{name}", encode(order))
    first, second = await results.standings(bus, "a")
    assert first == {
        **{"order": "b", "agent": "codex", "state": "done", "verified": True},
        **{"files": 2, "stat": "+1", "tokens": 7, "usd": 0.5},
    }
    assert (second["order"], second["verified"], second["files"], second["stat"]) == ("a", None, 0, "")
    assert [each["order"] for each in await results.standings(bus, "c")] == ["c"]
    with pytest.raises(NotFound, match="the order d is in no race") as refused:
        await results.standings(bus, "d")
    assert refused.value.hint == "submit with --race A,B or --best-of N"
