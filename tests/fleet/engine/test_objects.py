"""Large results: whole or an error, readable by any NATS client."""

import os

import pytest

from treadle.errors import NotFound, StorageError
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus


@pytest.mark.parametrize("size", [0, 1, objects.CHUNK, 3 * objects.CHUNK + 7])
async def test_an_object_comes_back_as_it_was(bus: Bus, size: int) -> None:
    data = os.urandom(size)
    await objects.put(bus, "patch.o.1", data)
    assert await objects.get(bus, "patch.o.1") == data


async def test_the_official_object_store_reads_what_we_wrote(bus: Bus) -> None:
    data = os.urandom(300_000)
    await objects.put(bus, "patch.o.1", data)
    store = await bus.client.jetstream().object_store("fleet")
    assert (await store.get("patch.o.1")).data == data


async def test_a_newer_object_takes_the_place_of_the_older(bus: Bus) -> None:
    await objects.put(bus, "x", b"old")
    await objects.put(bus, "x", b"new")
    assert await objects.get(bus, "x") == b"new"


async def test_a_missing_and_a_damaged_object_are_errors(bus: Bus) -> None:
    with pytest.raises(NotFound):
        await objects.get(bus, "nothing")
    info = await objects.put(bus, "x", b"data")
    await bus.publish(f"$O.fleet.C.{info['nuid']}", b"more")
    with pytest.raises(StorageError, match="damaged"):
        await objects.get(bus, "x")


async def test_fifty_megabytes_are_read_by_pull(bus: Bus) -> None:
    data = bytes(50 * 1024 * 1024)
    await objects.put(bus, "big", data)
    assert len(await objects.get(bus, "big")) == len(data)
