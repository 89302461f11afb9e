"""Which checkpoints an attempt can continue from."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from treadle.events import Message, ToolEnded, ToolStarted, TurnEnded
from treadle.fleet.engine import places, streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import resumption
from treadle.fleet.run.resumption import Checkpoint
from treadle.fleet.run.trees import WorkTree
from treadle.io.paths import state_dir
from treadle.redact import Redactor

KEY = places.of_order(places.new(), "o")
FILES = {"history.jsonl": b"said"}
MADE = Checkpoint(agent="native", cwd="/w", session="s1", commit="c1")
OPENED = replace(MADE, files=FILES)


def sealed(name: str = "checkpoint.o.1") -> Checkpoint:
    return replace(MADE, sealed=places.seal(KEY, msgspec.msgpack.encode(FILES), name))


async def test_a_session_opens_with_its_order_s_key_and_without_it_the_files_are_still_there(bus: Bus) -> None:
    stored = sealed()
    await streams.put(bus, "n1/checkpoint.o.1", msgspec.msgpack.encode(stored))
    assert await resumption.fetch(bus, "n1", "o", 1, KEY) == OPENED
    for key in (None, places.of_order(places.new(), "o")):
        assert await resumption.fetch(bus, "n1", "o", 1, key) == stored


async def test_a_session_that_was_stored_for_another_attempt_does_not_open(bus: Bus) -> None:
    await streams.put(bus, "n1/checkpoint.o.1", msgspec.msgpack.encode(sealed("checkpoint.o.2")))
    found = await resumption.fetch(bus, "n1", "o", 1, KEY)
    assert found is not None and found.files == {}


@pytest.mark.parametrize(
    "data", [msgspec.msgpack.encode(replace(MADE, format=number)) for number in (1, 9)] + [b"no checkpoint"]
)
async def test_one_of_a_later_version_and_a_damaged_one_are_not_used(bus: Bus, data: bytes) -> None:
    await streams.put(bus, "n1/checkpoint.o.1", data)
    assert await resumption.fetch(bus, "n1", "o", 1, KEY) is None


def running(tmp_path: Path, bus: Bus, key: bytes | None = KEY) -> Any:
    """As much of an attempt as its checkpoints look at."""

    async def session_key(order: str) -> bytes | None:
        return key if order == "o" else None

    return SimpleNamespace(
        spec=SimpleNamespace(id="o", agent="native"),
        order=SimpleNamespace(attempt=1),
        directory=str(tmp_path),
        tree=WorkTree(root="/w", top="", start="b0"),
        taker=None,
        superseded=asyncio.Event(),
        bus=bus,
        redactor=Redactor(["hush-hush"]),
        session_key=session_key,
        object_name=lambda kind: f"n1/{kind}.o.1",
    )


async def test_a_checkpoint_has_the_session_sealed_and_what_was_done_without_secrets(
    bus: Bus, tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = running(tmp_path, bus)
    kept = resumption.Checkpoints(attempt)
    history = Path(state_dir(), "sessions", "s1", "history.jsonl")
    history.parent.mkdir(parents=True)
    history.write_text("said")
    assert resumption.read_state(str(tmp_path)) is None
    kept.opened("")
    assert resumption.read_state(str(tmp_path)) is None
    kept.opened("s1")
    assert resumption.read_state(str(tmp_path)) == resumption.RunState(agent="native", tree=attempt.tree, session="s1")
    kept.look(ToolStarted(call="c", name="bash", command="echo hush-hush"))
    kept.look(Message(text="I know hush-hush."))
    assert await kept.keep()
    found = await resumption.fetch(bus, "n1", "o", 1, KEY)
    assert found is not None and found.files == {"s1/history.jsonl": b"said"} and found.session == "s1"
    assert (found.agent, found.cwd, found.start, found.commit, found.bundle) == ("native", "/w", "b0", "", b"")
    handover = resumption.HANDOVER.read(found.handover, "it")
    assert handover.agent == "native" and len(handover.done) == len(handover.messages) == 1
    assert "hush-hush" not in str(found) and resumption.HANDOVER.get(str(tmp_path / resumption.HANDED)) == handover
    stored = msgspec.msgpack.decode(await streams.get(bus, "n1/checkpoint.o.1"), type=Checkpoint)
    assert stored.files == {} and b"said" not in stored.sealed and stored.format == resumption.CHECKPOINT
    attempt.session_key = running(tmp_path, bus, None).session_key
    assert await kept.keep()
    without = await resumption.fetch(bus, "n1", "o", 1, KEY)
    assert without is not None and without.files == {} and without.sealed == b"", "no key, no session"
    monkeypatch.setattr(resumption, "CHECKPOINT_MAX", 10)
    assert not await kept.keep()
    monkeypatch.undo()
    attempt.superseded.set()
    assert not await kept.keep()
    attempt.superseded.clear()
    attempt.tree = None
    assert not await kept.keep()
    kept.opened("s2")
    assert kept.session == "s1"


async def test_checkpoints_are_taken_after_something_was_done_until_they_are_closed(
    bus: Bus, tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "SECONDS", 0.0)
    kept = resumption.Checkpoints(running(tmp_path, bus))
    kept.close()
    kept.start()
    kept.look(ToolStarted(call="c", name="bash"))
    for _ in range(3):  # a round to the engine and back is time enough to take one
        assert await resumption.fetch(bus, "n1", "o", 1, KEY) is None, "nothing has ended yet"
    for event in (ToolEnded(call="c", name="bash", result=""), Message(text="Done."), TurnEnded(outcome="completed")):
        kept.look(event)
        async with asyncio.timeout(60):
            while (found := await resumption.fetch(bus, "n1", "o", 1, KEY)) is None:
                await asyncio.sleep(0.01)
        assert found.handover
    kept.close()
    (tmp_path / "state.json").write_text("{")
    assert resumption.read_state(str(tmp_path)) is None
