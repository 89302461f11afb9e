"""Backup and restore: what was acknowledged before is there afterwards, and goes on."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.conftest import Start, give, make_fleet, spec
from tests.fleet.engine.buses import ScriptedClient
from treadle.errors import LocalError, NotFound, StorageError
from treadle.fleet import client, up
from treadle.fleet.engine import places, server, streams
from treadle.fleet.engine.bus import STATE, Bus, Unreachable

LATER = 1.0e10


async def saved(bus: Bus, directory: Path) -> list[str]:
    """A backup of a fleet with an order that is done, with its events and an object, and one that waits."""
    ids = await give(bus, spec("null:0.01:3", id="done-1"), spec(id="waits-1", not_before=LATER))
    assert (await client.wait(bus, "done-1", 60)).state == "done"
    await streams.put(bus, "patch.done-1.1", b"x" * 300_000)
    told: list[str] = []
    total = await server.backup(bus, str(directory), say=told.append)
    assert [line.partition(":")[0] for line in told] == [f"saved   {stream}" for stream in server.STREAMS]
    assert total == sum(path.stat().st_size for path in directory.glob("*/stream.tar.s2")) > 0
    assert directory.stat().st_mode & 0o077 == 0, "the credentials are in it"
    return ids


@pytest.mark.slow
async def test_a_restored_fleet_has_orders_receipts_events_and_objects_and_goes_on(
    fleet: places.Fleet, bus: Bus, tmp_path: Path
) -> None:
    await up.up(name="n1")
    await saved(bus, tmp_path / "backup")
    receipt = await client.get_receipt(bus, "done-1")
    await bus.close()
    await up.down()
    os.rename(places.root(), tmp_path / "lost")
    told: list[str] = []
    await server.restore(str(tmp_path / "backup"), say=told.append)
    assert told == [f"restored {stream}" for stream in server.STREAMS]
    assert not server.is_up() and places.load() == fleet, "the engine is left as it was found, with its credentials"
    await up.up(name="n1")
    async with client.connected() as again:
        assert await client.get_receipt(again, "done-1") == receipt is not None
        assert [seen.n async for seen in client.events(again, "done-1")] == [1, 2, 3]
        assert await streams.get(again, "patch.done-1.1") == b"x" * 300_000
        (given,) = await client.submit(again, [spec(id="done-1")])
        assert not given.new, "a key stays used"
        assert (await client.get_order(again, "waits-1")).state == "queued"
        (new,) = await give(again, spec())
        assert (await client.wait(again, new, 60)).state == "done"
    await up.down()


async def test_a_fleet_that_has_orders_or_works_is_not_written_over(
    fleet: places.Fleet, bus: Bus, start_node: Start, tmp_path: Path
) -> None:
    assert await server.backup(bus, str(tmp_path / "empty")) > 0
    await start_node()
    with pytest.raises(LocalError, match="n1 is at work"):
        await server.restore(str(tmp_path / "empty"))
    await give(bus, spec(id="a", not_before=LATER))
    with pytest.raises(LocalError, match="has orders already"):
        await server.restore(str(tmp_path / "empty"))
    with pytest.raises(LocalError, match="is not empty"):
        await server.backup(bus, str(tmp_path / "empty"))


async def test_a_backup_that_was_cut_off_is_not_restored(fleet: places.Fleet, bus: Bus, tmp_path: Path) -> None:
    await server.backup(bus, str(tmp_path / "half"))
    (tmp_path / "half" / "fleet.json").unlink()
    make_fleet()
    with pytest.raises(NotFound, match="no whole backup"):
        await server.restore(str(tmp_path / "half"))


# Without an engine: what each of its answers means...


async def pieces(*arrived: Any) -> list[bytes]:
    waiting: asyncio.Queue[Any] = asyncio.Queue()
    for each in arrived:
        waiting.put_nowait(each)
    return [data async for data in server._pieces(waiting, STATE)]


async def test_each_piece_is_acknowledged_and_the_last_says_whether_it_was_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = ScriptedClient()
    some = [there.message(b"1", reply="ack.1"), there.message(b"2"), there.message(b"3", reply="ack.3")]
    for end in ({}, {"Status": 204, "Description": "EOB"}, {"Description": "EOB"}, {"Status": 500}):
        assert await pieces(*some, there.message(b"", **end), there.message(b"4")) == [b"1", b"2", b"3"], end
    assert [sent[:2] for sent in there.sent[:2]] == [("ack.1", b""), ("ack.3", b"")] and len(there.sent) == 8
    with pytest.raises(StorageError, match=f"the engine could not save {STATE}: disk"):
        await pieces(there.message(b"", Status=500, Description="disk"))
    monkeypatch.setattr(server, "WAIT_SECONDS", 0.0)
    with pytest.raises(Unreachable, match=f"the engine stopped sending {STATE}") as stopped:
        await pieces(there.message(b"1"))
    assert stopped.value.hint == "take the backup again"


class Saving(ScriptedClient):
    """Sends two pieces to who asks for a snapshot."""

    async def request(self, subject: str, data: bytes, timeout: float, headers: Any) -> Any:
        for piece in (b"one", b"two", b""):
            await self.heard[json.loads(data)["deliver_subject"]](self.message(piece))
        return await super().request(subject, data, timeout, headers)


async def test_a_stream_is_saved_as_it_is_sent_and_a_full_disk_is_told(tmp_path: Path) -> None:
    there = Saving()
    there.answers = [{"config": {"name": "x"}, "state": {"messages": 2}, "type": "left out"}] * 2
    found = await server._save(there.bus(), STATE, str(tmp_path / "saved"))
    assert found == ({"config": {"name": "x"}, "state": {"messages": 2}}, 6)
    assert (tmp_path / "saved").read_bytes() == b"onetwo" and there.heard == {}
    assert there.sent[0].subject == f"$JS.API.STREAM.SNAPSHOT.{STATE}"
    assert there.sent[0].value == {"deliver_subject": "_INBOX.1", "chunk_size": server.CHUNK}
    before = os.listdir("/proc/self/fd")
    with pytest.raises(StorageError, match="/dev/full"):
        await server._save(there.bus(), STATE, "/dev/full")
    assert there.heard == {} and os.listdir("/proc/self/fd") == before


async def test_a_stream_is_restored_piece_by_piece_and_must_end_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CHUNK", 2)
    about = {"config": {}, "state": {"last_seq": 7}}
    (tmp_path / "backup.json").write_text(json.dumps(about))
    (tmp_path / "stream.tar.s2").write_bytes(b"abc")

    async def restored(delete: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, bytes]]:
        there = ScriptedClient()
        there.answers = [delete, {"deliver_subject": "to"}, {}, {}, end]
        await server._restore_stream(there.bus(), STATE, str(tmp_path))
        assert json.loads(there.sent[1].data) == about
        return [sent[:2] for sent in there.sent if sent.subject != f"$JS.API.STREAM.RESTORE.{STATE}"]

    sent = [(f"$JS.API.STREAM.DELETE.{STATE}", b""), ("to", b"ab"), ("to", b"c"), ("to", b"")]
    for delete in ({}, {"error": {"code": 404, "err_code": 10059}}):  # there was none
        assert await restored(delete, {"state": {"last_seq": 7}}) == sent
    with pytest.raises(StorageError, match=f"^{STATE} ends at 6, not at 7"):
        await restored({}, {"state": {"last_seq": 6}})
    for error, says in (({"description": "bad tar"}, "bad tar"), ({"code": 500}, "{'code': 500}")):
        with pytest.raises(StorageError, match=f"the engine could not restore {STATE}: {says}"):
            await restored({}, {"error": error})
