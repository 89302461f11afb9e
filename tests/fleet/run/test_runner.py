"""What a runner tells and what it keeps to itself."""

import os
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import DONE, bash, model, says, work
from treadle.fleet import client
from treadle.fleet.engine.bus import STATE, Bus


async def test_keys_never_reach_the_engine_whatever_the_agent_prints(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", 'k"ey-of-the-shop-77')
    await start_node()
    key = os.environ["SHOP_API_KEY"]
    prints = says(f"The key is {key}, and I ask.", bash(f"python3 -c 1 '{key}'"), turn=1)
    order = work(repository, model(tmp_path, prints, DONE), answer_seconds=0.2)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done", ended.why
    seen = [one async for one in client.events(bus, order.id)]
    assert any("[redacted]" in str(one.event) for one in seen)
    assert not any("ey-of-the-shop" in str(one.event) for one in seen)
    kept = await bus.named([f"order.{order.id}", f"receipt.{order.id}", f"ask.{order.id}.1"])
    assert len(kept) == 3 and not any(b"ey-of-the-shop" in entry.value for entry in kept.values())
    info = await bus.api(f"STREAM.INFO.{STATE}")
    assert info["state"]["messages"] and os.environ["SHOP_API_KEY"]
