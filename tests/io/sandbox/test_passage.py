"""Sockets of ours that a sandbox shows: who may connect, what goes through, and what is left of them."""

import asyncio
import os
import stat
from pathlib import Path

from treadle.io.sandbox.proxy import Granted, Passage


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


async def test_a_passage_that_never_began_is_removed_and_its_limit_is_what_a_reader_holds() -> None:
    passage = Granted("/inside")
    assert passage.place == "/inside" and os.path.isdir(os.path.dirname(passage.path))
    passage.close()
    assert not os.path.exists(os.path.dirname(passage.path))
    lines: list[str] = []

    class Line(Passage):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                lines.append((await reader.readline()).decode())
            except ValueError as error:
                lines.append(type(error).__name__)

    for limit in (10, 100):
        passage = Line("/inside", "line", limit=limit)
        await passage.start()
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_unix_connection(passage.path)
            writer.write(b"x" * 50 + b"\n")
            assert await reader.read() == b""
            writer.close()
        passage.close()
    assert lines == ["ValueError", "x" * 50 + "\n"]


async def test_the_connection_outside_ends_with_the_one_inside(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def outside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first")
        assert await reader.read() == b""
        ended.set()
        writer.close()

    place = str(tmp_path / "outside")
    async with await asyncio.start_unix_server(outside, place), asyncio.timeout(60):
        passage = Granted(place)
        await passage.start()
        reader, writer = await asyncio.open_unix_connection(passage.path)
        assert await reader.read(5) == b"first"
        passage.close()
        await ended.wait()
        assert await reader.read() == b""
        writer.close()
