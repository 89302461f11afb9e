"""The runner of a detached group: what it writes down, and visitors that stall or talk nonsense."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.agent.conftest import Opened
from tests.agent.test_detached import SCRIPT, detach, nothing_left, waited
from tests.scripts import says
from tests.streams import pair
from tests.waiting import until
from treadle.agent.detached import control
from treadle.agent.detached_runner import FOLLOWER_ROOM, Desk, GroupRecord
from treadle.agent.tasks import Assignment
from treadle.errors import TreadleError
from treadle.events import Task, TaskChanged, Warned, decode
from treadle.io.streams import FdStream, connect_unix, listen_unix

__all__ = ["nothing_left"]


def snapshot(number: int) -> TaskChanged:
    task = Task(id="a", kind="agent", label=str(number), status="running")
    return TaskChanged(change="updated", task_id="a", task=task)


def piece(text: str) -> TaskChanged:
    return TaskChanged(change="text", task_id="a", data={"delta": text})


async def test_snapshots_are_kept_and_pieces_of_text_are_not(tmp_path: Path) -> None:
    record = GroupRecord(str(tmp_path))
    for event in (snapshot(1), piece("x"), Warned(message="not about tasks"), snapshot(2)):
        record.add(event)
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert [decode(line) for line in lines] == [snapshot(1), snapshot(2)]


async def test_a_disk_that_is_full_does_not_end_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    record = GroupRecord(str(tmp_path))
    there, here = pair()
    following = asyncio.create_task(record.follow(there, 0))
    await asyncio.sleep(0)
    record.add(snapshot(1))
    assert "No space left" in capsys.readouterr().err
    record.add(snapshot(2))
    record.end()
    await asyncio.wait_for(following, 60)
    assert [decode(line) for line in (await here.read()).splitlines()] == [snapshot(1), snapshot(2)]


async def test_a_follower_that_stalls_is_let_go_and_holds_nobody_back(tmp_path: Path) -> None:
    record = GroupRecord(str(tmp_path))
    listener = listen_unix(str(tmp_path / "s"))
    stalled = await connect_unix(str(tmp_path / "s"))
    server = await listener.accept()
    following = asyncio.create_task(record.follow(server, 0))
    await asyncio.sleep(0)
    for number in range(3 * FOLLOWER_ROOM):
        record.add(piece("x" * 1000))
        if number % 1000 == 0:
            await asyncio.sleep(0)
    assert not record._followers
    heard = 0
    reading = asyncio.create_task(following_ends(following, server))
    while data := await asyncio.wait_for(stalled.read(), 60):
        heard += data.count(b"\n")
    await reading
    assert 0 < heard <= 2 * FOLLOWER_ROOM
    stalled.close()
    listener.close()


async def following_ends(following: asyncio.Task[None], server: FdStream) -> None:
    await asyncio.wait_for(following, 60)
    server.close()


async def test_nonsense_on_the_control_socket_costs_nobody_anything(opened: Opened) -> None:
    session = await opened(SCRIPT)
    group = await detach(session, 'a:"slowly"')
    for nonsense in (
        b"\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b'{"do":"stop","id":"x"}\n',
        b"\xff\xfe\n",
        b'{"do":"fol',
        b"1\n",
    ):
        stream = await connect_unix(control(group.directory))
        await stream.write(nonsense)
        stream.close_write()
        async with asyncio.timeout(60):
            while await stream.read():
                pass
        stream.close()
    assert "(1/1 completed" in await waited(session, group.group.id)


async def test_many_can_wait_at_once(opened: Opened) -> None:
    session = await opened(SCRIPT)
    group = await detach(session, 'a:"slowly" b:"count"')
    shown = await asyncio.gather(*(waited(session, group.group.id) for _ in range(5)))
    assert len(set(shown)) == 1
    await until(lambda: not os.path.exists(control(group.directory)))


async def test_visitors_stop_send_and_follow_and_the_rest_is_refused(
    opened: Opened, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await opened(says("late", when="wait", delay=60, times="always"))
    task = session.tasks.add(Assignment(prompt="wait", label="w"), background=True)
    group = session.groups.start([Assignment(prompt="wait", label="a")])
    record = GroupRecord(str(tmp_path))
    place = str(tmp_path / "s")
    desk = Desk(listen_unix(place), record, session.tasks, session.groups)
    serving = asyncio.create_task(desk.serve())

    async def said(data: bytes) -> bytes:
        stream = await connect_unix(place)
        await stream.write(data + b"\n")
        stream.close_write()
        heard = b""
        async with asyncio.timeout(60):
            while more := await stream.read():
                heard += more
        stream.close()
        return heard

    async def obeyed(**request: object) -> bool:
        return bool(json.loads(await said(json.dumps(request).encode()))["ok"])

    assert await obeyed(do="send", id=task.id, text="faster")
    assert not await obeyed(do="send", id="x", text="hi") and not await obeyed(do="stop", id="x")
    assert not await obeyed(do="dance", id=task.id) and not await obeyed()
    assert await obeyed(do="stop", id=task.id, reason="enough")
    stopped = session.tasks.get(task.id)
    assert stopped.status == "cancelled" and stopped.error is not None and "enough" in stopped.error.message
    assert await obeyed(do="stop", id=group.id, reason="late")
    assert [one.status for one in session.groups.get(group.id).results] == ["cancelled"]
    assert await said(b"nonsense") == b"" and "a visitor was turned away: " in capsys.readouterr().err
    record.add(snapshot(1))
    record.add(snapshot(2))
    following = asyncio.create_task(said(b'{"do": "follow", "after": 1}'))
    await until(lambda: record._followers)
    record.add(snapshot(3))
    serving.cancel()
    await desk.end()
    assert [decode(line) for line in (await following).splitlines()] == [snapshot(2), snapshot(3)]
    with pytest.raises((TreadleError, OSError)):
        await connect_unix(place)


async def test_the_end_reaches_a_follower_whose_queue_is_full(tmp_path: Path) -> None:
    record = GroupRecord(str(tmp_path))
    there, here = pair()
    following = asyncio.create_task(record.follow(there, 0))
    await asyncio.sleep(0)
    for _ in range(FOLLOWER_ROOM):
        record.add(piece("x"))
    record.end()
    heard = 0
    async with asyncio.timeout(60):
        while not following.done() or heard < FOLLOWER_ROOM - 1:
            heard += (await here.read()).count(b"\n")
            await asyncio.sleep(0)
    assert heard == FOLLOWER_ROOM - 1 and not record._followers
