"""The runner of a detached group: what it writes down, and visitors that stall or talk nonsense."""

import asyncio
from pathlib import Path

from tests.agent.conftest import Opened
from tests.agent.test_detached import SCRIPT, detach, waited
from treadle.agent.detached import control
from treadle.agent.detached_runner import FOLLOWER_ROOM, GroupRecord
from treadle.events import TaskChanged
from treadle.io.streams import FdStream, connect_unix, listen_unix


def piece(text: str) -> TaskChanged:
    return TaskChanged(change="text", task_id="a", data={"delta": text})


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
