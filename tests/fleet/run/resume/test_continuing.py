"""An attempt that goes on from the one before: in the agent's own session where it can, else with a brief."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fleet.conftest import Start, give, runner_pid, spec, until_state
from tests.fleet.repositories import DONE, bash, git, model, read, says, work, write
from tests.waiting import stop
from treadle.errors import ConfigError
from treadle.fleet import client, session_keys
from treadle.fleet.engine import objects, places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.layout import OBJECTS
from treadle.fleet.run import runs, trees
from treadle.fleet.run.resume import checkpoints
from treadle.wire.fleet.orders import Spec

CUT_OFF = (
    says("I go on.", read("b.txt"), write("b.txt", "whole"), when="You were interrupted", turn=2),
    says("I start over.", write("c.txt", "brief"), when="This was begun before", turn=1),
    says("never said", when="half|whole|brief|[Ww]rote|[Cc]reated", turn=2, delay=120),
    says("I begin.", write("half.txt", "half"), turn=1),
    DONE,
)


async def until_written(order: Spec, name: str, attempt: int = 1) -> None:
    """Until the agent has written a file, and a checkpoint of that was kept."""
    place = Path(runs.directory(order.id, attempt)) / "work" / name
    async with asyncio.timeout(60):
        while not place.exists():
            await asyncio.sleep(0.02)


def order_key(order: str) -> bytes:
    return session_keys.of_order(places.session_key(), order)


async def until_kept(bus: Bus, order: Spec, attempt: int = 1) -> checkpoints.Checkpoint:
    async with asyncio.timeout(60):
        while True:
            kept = await checkpoints.fetch(bus, "n1", order.id, attempt, order_key(order.id))
            if kept is not None and kept.session and kept.files and kept.commit != kept.start:
                return kept
            await asyncio.sleep(0.05)


async def test_a_killed_runner_s_session_and_files_are_gone_on_with(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    await until_written(order, "half.txt")
    os.kill(await runner_pid(order.id), signal.SIGKILL)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and [one.resumed for one in ended.attempts] == ["", "session"], ended.why
    assert ended.result["changed"] == ["b.txt", "half.txt"]


async def test_while_the_old_runner_may_wake_the_session_goes_on_elsewhere_from_its_checkpoint(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    await until_kept(bus, order)
    stale = await runner_pid(order.id)
    stop(stale)
    try:
        ended = await client.wait(bus, order.id, 90)
    finally:
        os.kill(stale, signal.SIGCONT)
    assert ended.state == "done" and [one.resumed for one in ended.attempts] == ["", "session"], ended.why
    assert ended.result["changed"] == ["b.txt", "half.txt"]
    assert os.path.isdir(os.path.join(runs.directory(order.id, 1), "work"))


async def test_an_agent_that_lost_its_session_starts_over_with_the_files_and_a_brief(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    node = await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    kept = await until_kept(bus, order)
    pid = await runner_pid(order.id)
    node.settings = type(node.settings)(name="n1", slots=0)
    stop(pid)  # so that nothing more is written to the session that we take away
    sessions = Path(os.environ["TREADLE_HOME"]) / "sessions" / kept.session
    (sessions / "history.jsonl").unlink()
    sessions.rmdir() if not list(sessions.iterdir()) else [each.unlink() for each in sessions.iterdir()]
    os.kill(pid, signal.SIGKILL)
    node.settings = type(node.settings)(name="n1", slots=1)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.attempts[1].resumed == "brief", ended.why
    assert ended.result["changed"] == ["c.txt", "half.txt"]


async def test_work_that_is_sent_back_goes_on_in_the_session_that_did_it(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    replies = [
        says("Gladly.", write("c.txt", "three"), when="(?s)A reviewer has looked.*also write c.txt", turn=3),
        says("I write.", read("a.txt"), write("a.txt", "two"), turn=1),
        DONE,
    ]
    order = work(repository, model(tmp_path, *replies))
    await give(bus, order)
    first = await client.wait(bus, order.id, 90)
    again = await client.send_back(bus, order.id, "also write c.txt", by="ana")
    second = await client.wait(bus, again.id, 90)
    assert second.state == "done" and second.attempts[0].resumed == "session", second
    assert second.result["base"] == first.result["commit"] and second.result["changed"] == ["c.txt"]
    assert (await client.get_spec(bus, again.id)).comments == "also write c.txt"
    with pytest.raises(ConfigError):
        await client.send_back(bus, order.id, " ")


def asks(goes_on: str) -> tuple[dict[str, Any], ...]:
    """It asks, and does it when it is told, in these words, how to go on."""
    return (
        says("Then I do it.", bash("install /dev/null asked.txt"), when=goes_on),
        says("May I?", bash("install /dev/null asked.txt"), when="do it", turn=1),
        DONE,
    )


async def test_a_parked_order_holds_no_slot_and_goes_on_with_the_answer(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node(slots=1)
    order = work(repository, model(tmp_path, *asks("It was given")), park=0.1, claims=("asked.txt",))
    other, clash = spec(), spec(root=str(repository), claims=("asked.txt",))
    await give(bus, order)
    async with asyncio.timeout(60):
        while not (await client.get_order(bus, order.id)).parked:
            await asyncio.sleep(0.02)
    await give(bus, other, clash)
    assert (await client.wait(bus, other.id, 60)).state == "done"
    held = await client.why(bus, clash.id)
    assert held.waits is not None and held.waits.holder == order.id
    parked = await client.why(bus, order.id)
    assert parked.waits is not None and "no runner meanwhile" in parked.waits.text
    (ask,) = await client.approvals(bus)
    assert ask.command == "install /dev/null asked.txt"
    await client.answer(bus, order.id, "allow", by="ana")
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and "asked.txt" in ended.result["changed"], ended.why
    assert [(one.outcome, one.resumed) for one in ended.attempts] == [("parked", ""), ("done", "session")]
    receipt = await client.get_receipt(bus, order.id)
    assert receipt is not None and [one["by"] for one in receipt.approvals] == ["ana"]
    assert (await client.wait(bus, clash.id, 60)).state == "done"


async def test_a_question_outlives_the_runner_that_asked_it(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, model(tmp_path, *asks("You were interrupted")))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    os.kill(await runner_pid(order.id), signal.SIGKILL)
    await client.answer(bus, order.id, "allow", by="ana", number=1)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.asks == 1 and "asked.txt" in ended.result["changed"], ended


async def test_an_order_that_ran_under_the_release_before_goes_on_from_its_checkpoint(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    """Release 0.1 worked in a `git worktree` and bundled another ref; its records have no store."""
    node = await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    kept = await until_kept(bus, order)
    pid = await runner_pid(order.id)
    node.settings = type(node.settings)(name="n1", slots=0)
    os.kill(pid, signal.SIGKILL)
    old = tmp_path / "old"
    git(repository, "worktree", "add", "-q", "--detach", str(old), order.base)
    (old / "half.txt").write_text("half")
    git(old, "add", "-A")
    git(old, "commit", "-qm", "as it was when the attempt was cut off")
    git(old, "update-ref", trees.FORMER, "HEAD")
    git(old, "bundle", "create", "-q", str(tmp_path / "old.bundle"), trees.FORMER, f"^{order.base}")
    bundle = (tmp_path / "old.bundle").read_bytes()
    former = msgspec.structs.replace(kept, commit=git(old, "rev-parse", "HEAD"), bundle=bundle)
    await bus.api(f"STREAM.PURGE.{OBJECTS}")  # and stored it without the node's name
    await objects.put(bus, f"checkpoint.{order.id}.1", msgspec.msgpack.encode(former))
    place = Path(runs.directory(order.id, 1)) / "state.json"
    state = msgspec.json.decode(place.read_bytes())
    del state["tree"]["store"]
    place.write_bytes(msgspec.json.encode(state))
    node.settings = type(node.settings)(name="n1", slots=1)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.attempts[1].resumed == "session", ended.why
    assert ended.result["changed"] == ["b.txt", "half.txt"]
