"""Backup and restore: what was acknowledged before is there afterwards, and goes on."""

import os
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, make_fleet, spec
from treadle.errors import LocalError, NotFound
from treadle.fleet import client, up
from treadle.fleet.engine import backups, objects, places, server
from treadle.fleet.engine.bus import Bus

LATER = 1.0e10


async def saved(bus: Bus, directory: Path) -> list[str]:
    """A backup of a fleet with an order that is done, with its events and an object, and one that waits."""
    ids = await give(bus, spec("null:0.01:3", id="done-1"), spec(id="waits-1", not_before=LATER))
    assert (await client.wait(bus, "done-1", 60)).state == "done"
    await objects.put(bus, "patch.done-1.1", b"x" * 300_000)
    assert await backups.backup(bus, str(directory)) > 0
    return ids


async def test_a_restored_fleet_has_orders_receipts_events_and_objects_and_goes_on(
    fleet: places.Fleet, bus: Bus, tmp_path: Path
) -> None:
    await up.up(name="n1")
    await saved(bus, tmp_path / "backup")
    receipt = await client.get_receipt(bus, "done-1")
    await bus.close()
    await up.down()
    os.rename(places.root(), tmp_path / "lost")
    await backups.restore(str(tmp_path / "backup"))
    assert not server.is_up() and places.load() == fleet, "the engine is left as it was found, with its credentials"
    await up.up(name="n1")
    async with client.connected() as again:
        assert await client.get_receipt(again, "done-1") == receipt is not None
        assert [seen.n async for seen in client.events(again, "done-1")] == [1, 2, 3]
        assert await objects.get(again, "patch.done-1.1") == b"x" * 300_000
        (given,) = await client.submit(again, [spec(id="done-1")])
        assert not given.new, "a key stays used"
        assert (await client.get_order(again, "waits-1")).state == "queued"
        (new,) = await give(again, spec())
        assert (await client.wait(again, new, 60)).state == "done"
    await up.down()


async def test_a_fleet_that_has_orders_or_works_is_not_written_over(
    fleet: places.Fleet, bus: Bus, start_node: Start, tmp_path: Path
) -> None:
    assert await backups.backup(bus, str(tmp_path / "empty")) > 0
    await start_node()
    with pytest.raises(LocalError, match="n1 is at work"):
        await backups.restore(str(tmp_path / "empty"))
    await give(bus, spec(id="a", not_before=LATER))
    with pytest.raises(LocalError, match="has orders already"):
        await backups.restore(str(tmp_path / "empty"))
    with pytest.raises(LocalError, match="is not empty"):
        await backups.backup(bus, str(tmp_path / "empty"))


async def test_a_backup_that_was_cut_off_is_not_restored(fleet: places.Fleet, bus: Bus, tmp_path: Path) -> None:
    await backups.backup(bus, str(tmp_path / "half"))
    (tmp_path / "half" / "fleet.json").unlink()
    make_fleet()
    with pytest.raises(NotFound, match="no whole backup"):
        await backups.restore(str(tmp_path / "half"))
