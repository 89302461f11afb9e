"""Notices and answer links: each question once, a look answers nothing, a button answers once."""

import asyncio
import hashlib
import hmac
from pathlib import Path

import httpx2
import msgspec
import pytest

from tests.fleet.api.conftest import WAIT, StartWeb
from tests.fleet.conftest import Start, give, until_state
from tests.fleet.test_steering import edits, repository, work
from treadle.errors import ConfigError
from treadle.fleet import client, places
from treadle.fleet.api.notices import checked
from treadle.fleet.bus import Bus

__all__ = ["repository"]


async def test_a_question_is_told_once_and_answered_from_its_link(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    heard: list[tuple[bytes, bytes]] = []
    refuse = [True]

    async def hook(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        status = b"503 Busy" if refuse.pop() else b"200 OK"  # the first try fails, and is made again
        refuse.append(False)
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        if status.startswith(b"200"):
            heard.append((head, body))

    listening = await asyncio.start_server(hook, "127.0.0.1", 0)
    try:
        port = listening.sockets[0].getsockname()[1]
        web = await serving(terminals=str(tmp_path), notify=(f"http://127.0.0.1:{port}/hook",))
        await web.until_up()
        await start_node()
        order = work(repository, edits(tmp_path, "x", "a.txt", "two", "touch asked.txt"))
        await give(bus, order)
        await until_state(bus, order.id, "asking")
        async with asyncio.timeout(WAIT):
            while not heard:
                await asyncio.sleep(0.05)
        head, body = heard[0]
        told = msgspec.json.decode(body)
        signature = hmac.new(web.server.tokens.key(), body, hashlib.sha256).hexdigest()
        assert f"sha256={signature}".encode() in head and told["ask"]["command"] == "touch asked.txt"
        link = told["links"]["allow"]
        async with httpx2.AsyncClient(timeout=WAIT, trust_env=False) as anybody:
            shown = await anybody.get(link)
            assert shown.status_code == 200 and "touch asked.txt" in shown.text and "<form" in shown.text
            assert (await client.get_order(bus, order.id)).state == "asking"
            forged = await anybody.post(link.replace("/allow/", "/deny/"))
            assert forged.status_code == 403
            done = await anybody.post(link)
            assert "Answered: allow" in done.text
            again = await anybody.post(link)
            assert "Answered" not in again.text
        assert (await client.wait(bus, order.id, 90)).state == "done"
        assert len(heard) == 1
    finally:
        listening.close()


def test_only_a_place_that_can_be_told_is_taken() -> None:
    for target in ("https://x.example/y", "ntfy:https://ntfy.example/t", "command:notify-send", "http://127.0.0.1:1/x"):
        assert checked(target) == target
    for wrong in ("http://elsewhere.example", "ntfy:http://plain.example", "ftp://x", ""):
        with pytest.raises(ConfigError):
            checked(wrong)
