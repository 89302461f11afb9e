"""Which checkpoints an attempt can continue from."""

import msgspec
import pytest
from msgspec.structs import replace

from treadle.fleet import session_keys
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.resume import checkpoints
from treadle.fleet.run.resume.checkpoints import Checkpoint

KEY = session_keys.of_order(session_keys.new(), "o")
FILES = {"history.jsonl": b"said"}
MADE = Checkpoint(agent="native", cwd="/w", session="s1", commit="c1")
OPENED = replace(MADE, files=FILES)
PLAIN = replace(OPENED, format=checkpoints.PLAIN)


def sealed(name: str = "checkpoint.o.1") -> Checkpoint:
    return replace(MADE, sealed=session_keys.seal(KEY, msgspec.msgpack.encode(FILES), name))


@pytest.mark.parametrize("name", ["n1/checkpoint.o.1", "checkpoint.o.1"])
async def test_what_release_0_1_stored_without_encryption_is_read(bus: Bus, name: str) -> None:
    await objects.put(bus, name, msgspec.msgpack.encode(PLAIN))
    assert await checkpoints.fetch(bus, "n1", "o", 1, None) == PLAIN


async def test_a_session_opens_with_its_order_s_key_and_without_it_the_files_are_still_there(bus: Bus) -> None:
    stored = sealed()
    await objects.put(bus, "n1/checkpoint.o.1", msgspec.msgpack.encode(stored))
    assert await checkpoints.fetch(bus, "n1", "o", 1, KEY) == OPENED
    for key in (None, session_keys.of_order(session_keys.new(), "o")):
        assert await checkpoints.fetch(bus, "n1", "o", 1, key) == stored


async def test_a_session_that_was_stored_for_another_attempt_does_not_open(bus: Bus) -> None:
    await objects.put(bus, "n1/checkpoint.o.1", msgspec.msgpack.encode(sealed("checkpoint.o.2")))
    found = await checkpoints.fetch(bus, "n1", "o", 1, KEY)
    assert found is not None and found.files == {}


@pytest.mark.parametrize("data", [msgspec.msgpack.encode(replace(MADE, format=9)), b"no checkpoint"])
async def test_one_of_a_later_version_and_a_damaged_one_are_not_used(bus: Bus, data: bytes) -> None:
    await objects.put(bus, "n1/checkpoint.o.1", data)
    assert await checkpoints.fetch(bus, "n1", "o", 1, KEY) is None
