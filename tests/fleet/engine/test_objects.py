"""Large results: whole or an error, readable by any NATS client."""

import base64
import os

import msgspec
import pytest

from treadle.errors import NotFound, StorageError
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus


@pytest.mark.parametrize("size", [0, 1, streams.OBJECT_CHUNK, 3 * streams.OBJECT_CHUNK + 7])
async def test_an_object_comes_back_as_it_was(bus: Bus, size: int) -> None:
    data = os.urandom(size)
    await streams.put(bus, "patch.o.1", data)
    assert await streams.get(bus, "patch.o.1") == data


async def test_the_official_object_store_reads_what_we_wrote(bus: Bus) -> None:
    data = os.urandom(300_000)
    await streams.put(bus, "patch.o.1", data)
    store = await bus.client.jetstream().object_store("fleet")
    assert (await store.get("patch.o.1")).data == data


async def test_a_newer_object_takes_the_place_of_the_older(bus: Bus) -> None:
    await streams.put(bus, "x", b"old")
    await streams.put(bus, "x", b"new")
    assert await streams.get(bus, "x") == b"new"


async def test_a_missing_and_a_damaged_object_are_errors(bus: Bus) -> None:
    with pytest.raises(NotFound):
        await streams.get(bus, "nothing")
    info = await streams.put(bus, "x", b"data")
    await bus.publish(f"$O.fleet.C.{info['nuid']}", b"more")
    with pytest.raises(StorageError, match="damaged"):
        await streams.get(bus, "x")


@pytest.mark.slow
async def test_fifty_megabytes_are_read_by_pull(bus: Bus) -> None:
    data = bytes(50 * 1024 * 1024)
    await streams.put(bus, "big", data)
    assert len(await streams.get(bus, "big")) == len(data)


async def test_an_object_of_a_node_is_on_its_subjects_and_slots_replace_their_own_parts(bus: Bus) -> None:
    name = streams.owned("n1", "session.o.1")
    assert name == "n1/session.o.1"
    infos = [await streams.put(bus, name, bytes([number]) * 300_000, slot=str(number % 2)) for number in range(4)]
    assert infos[0]["nuid"] == infos[2]["nuid"] != infos[1]["nuid"] == infos[3]["nuid"] and infos[0]["chunks"] == 3
    assert (infos[0]["name"], infos[0]["bucket"], infos[0]["size"]) == (name, "fleet", 300_000)
    assert await streams.get(bus, name) == b"\x03" * 300_000
    found = (await bus.api("STREAM.INFO.OBJ_fleet", {"subjects_filter": ">"}))["state"]["subjects"]
    assert sum(found.values()) == 3 + 3 + 1, "the parts of two slots, and one description"
    assert all(subject.startswith(("$O.fleet.C.n1.", "$O.fleet.M.n1.")) for subject in found)
    one, two = [await streams.put(bus, "plain", b"x" * 9) for _ in range(2)]
    assert one["nuid"] != two["nuid"]


async def test_an_object_that_lacks_parts_or_has_others_is_an_error(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="there is no object 'nothing'") as missing:
        await streams.get(bus, "nothing")
    assert missing.value.hint == "results are stored for 30 days"
    info = await streams.put(bus, "x", b"a" * 300_000)
    subject = f"$O.fleet.M.{base64.urlsafe_b64encode(b'x').decode()}"
    wrong = [{"size": 299_999}, {"digest": "SHA-256=other"}]
    for change in wrong:
        await bus.publish(subject, msgspec.json.encode({**info, **change}), {"Nats-Rollup": "sub"})
        with pytest.raises(StorageError, match="the object 'x' is damaged: its digest does not match"):
            await streams.get(bus, "x")
    monkeypatch.setattr(streams, "WAIT_SECONDS", 0.1)
    await bus.publish(subject, msgspec.json.encode({**info, "chunks": 4}), {"Nats-Rollup": "sub"})
    with pytest.raises(StorageError, match="the object 'x' has only 3 of its 4 parts"):
        await streams.get(bus, "x")
