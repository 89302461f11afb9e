"""Sockets of ours that a sandbox shows: who may connect, what goes through, and what is left of them."""

import asyncio
import os
import stat
from pathlib import Path

from treadle.io.sandbox.passage import Granted, Passage


async def test_bytes_go_both_ways_to_the_socket_that_was_granted_and_so_does_the_end(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    place = str(tmp_path / "outside")
    async with await asyncio.start_unix_server(answer, place), asyncio.timeout(60):
        passage = Granted(place)
        await passage.start()
        assert stat.S_IMODE(os.stat(passage.path).st_mode) == 0o600
        reader, writer = await asyncio.open_unix_connection(passage.path)
        writer.write(b"hello" * 50_000)
        writer.write_eof()
        assert await reader.read() == b"HELLO" * 50_000
        writer.close()
        passage.close()
    assert not os.path.exists(os.path.dirname(passage.path))


async def test_where_nothing_listens_the_connection_ends(tmp_path: Path) -> None:
    passage = Granted(str(tmp_path / "nothing"))
    await passage.start()
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(passage.path)
        assert await reader.read() == b""
        writer.close()
    passage.close()


async def test_closing_ends_the_connections_that_are_open(tmp_path: Path) -> None:
    entered = asyncio.Event()

    class Silent(Passage):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            entered.set()
            await asyncio.Event().wait()

    passage = Silent("/inside", "silent")
    await passage.start()
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(passage.path)
        await entered.wait()
        passage.close()
        assert await reader.read() == b""
        writer.close()
