"""Connections that are used up slowly are closed."""

import asyncio
from pathlib import Path

import pytest

from tests.serve.conftest import StartWeb


async def test_who_sends_a_request_byte_by_byte_is_cut_off(
    serving: StartWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.serve.connections import BoundedConnection

    monkeypatch.setattr(BoundedConnection, "idle_seconds", 0.2)
    web = await serving(terminals=str(tmp_path))
    reader, writer = await asyncio.open_connection("127.0.0.1", web.listening.port)
    ended = asyncio.create_task(reader.read())
    writer.write(b"GET / HTTP/1.1\r\nhost: ")
    try:
        async with asyncio.timeout(60):
            while not ended.done():
                writer.write(b"x")
                await asyncio.sleep(0.05)
    finally:
        writer.close()
    assert ended.done()
