"""The two Python clients, against a real supervisor."""

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.terminal.support import Stage, connected, until
from treadle.errors import NotFound, PeerExited, PeerStalled, RemoteProtocolError, TimedOut
from treadle.terminal.client import AsyncClient, Client
from treadle.wire.terminal import frames as wire

# The one that waits...


def test_ask_type_and_watch(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read line; echo got $line; exit 3")
    with Client(place.sock) as client:
        assert client.status().alive == 1
        client.input(b"it\n")
        assert b"got it" in b"".join(client.output(50))
        assert client.exit_code == 3
        assert client.stop(1e9)["code"] == 3  # more patience than the wire can tell


def test_what_comes_while_an_answer_is_awaited_is_kept_in_order(stage: Stage) -> None:
    place = stage.start("sh", "-c", "seq 1 2000")
    with Client(place.sock) as client:
        client.subscribe()
        for _ in range(5):
            client.status()
        output = b"".join(message.data for message in client.messages(50) if isinstance(message, wire.Output))
    assert output.split() == [b"%d" % number for number in range(1, 2001)]


def test_waiting_has_an_end(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with Client(place.sock) as client:
        client.subscribe()
        with pytest.raises(TimedOut):
            next(client.messages(0.1))
        assert client.status().alive == 1


def test_nobody_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Client(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("says", "error"), [(b"", PeerExited), (b"\x01", RemoteProtocolError), (b"\0\x82\0\0\0\x01x", RemoteProtocolError)]
)
def test_a_peer_that_is_no_supervisor_gives_an_error_of_ours(
    tmp_path: Path, says: bytes, error: type[Exception]
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises((error, RemoteProtocolError)):
            with Client(str(tmp_path / "s"), timeout=50) as client:
                client.status()
        thread.join(50)


async def test_a_supervisor_that_does_not_greet_is_stalled(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(PeerStalled, match="does not answer"):
            Client(str(tmp_path / "s"), timeout=0.1)
        with pytest.raises(PeerStalled, match="does not answer"):
            await AsyncClient.connect(str(tmp_path / "s"), timeout=0.1)


def test_a_supervisor_without_our_additions_is_told_apart_by_its_silence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b"\0")
                while sock.recv(1000):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        with Client(str(tmp_path / "s")) as client:
            client.timeout = 0.2
            with pytest.raises(PeerStalled, match="Detail"):
                client.detail()
        thread.join(50)


# The one that awaits...


async def test_awaiting_the_same_things(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read line; echo got $line; exit 4")
    async with await AsyncClient.connect(place.sock) as client:
        assert (await client.status()).alive == 1
        assert (await client.hello()).version == 1
        await client.resize(90, 30)
        assert (await client.detail())["size"]["cols"] == 90
        await client.input(b"it\n")
        output = b"".join([data async for data in client.output()])
        assert b"got it" in output and client.exit_code == 4


async def test_questions_are_answered_while_another_task_reads_the_output(stage: Stage) -> None:
    place = stage.start("sh", "-c", "seq 1 3000; read x; seq 3001 6000")
    async with await AsyncClient.connect(place.sock) as client:
        parts: list[bytes] = []

        async def drain() -> None:
            async for data in client.output():
                parts.append(data)

        task = asyncio.create_task(drain())
        answers = await asyncio.gather(*(client.status() for _ in range(20)))
        assert all(answer.alive for answer in answers)
        await client.input(b"\n")
        await asyncio.wait_for(task, 50)
    assert b"".join(parts).split()[-1] == b"6000"


async def test_stop_and_kill(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    async with await AsyncClient.connect(place.sock) as client:
        report = await client.stop(1)
    assert report["code"] == 143 and report["survivors"] == []
    other = stage.start("sleep", "60")
    async with await AsyncClient.connect(other.sock) as client:
        await client.kill()
        assert [data async for data in client.output()] == []
        assert client.exit_code == 143


async def test_nobody_there_is_not_found_for_it_too(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await AsyncClient.connect(str(tmp_path / "nothing"))


async def test_a_supervisor_that_dies_ends_the_wait(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    async with await AsyncClient.connect(place.sock) as client:
        await client.subscribe()
        os.kill(place.pids()[0], 9)
        with pytest.raises(PeerExited):
            async for _ in client.messages():
                pass


def test_both_can_be_used_at_once(stage: Stage) -> None:
    place = stage.start("cat")

    async def type_it() -> None:
        async with await AsyncClient.connect(place.sock) as client:
            await client.input(b"hello\n")

    with connected(place) as watcher:
        watcher.subscribe()
        asyncio.run(type_it())
        until(lambda: watcher.detail()["output"]["end"] >= 14)
