"""What is asked for as a fault, and what a client then gets on its socket."""

import asyncio
import re

import pytest

from treadle.agent.providers.script import ErrorLine, Fault
from treadle.errors import ConfigError
from treadle.testing import faults
from treadle.testing.faults import CHUNKED, HTML, STREAM, chunk, parse, perform


def test_a_fault_is_written_as_a_name_a_status_or_ok() -> None:
    assert parse("cut") == "cut"
    assert parse("ok") is None
    assert parse("500") == ErrorLine(status=500, message="a fault was asked for")
    assert parse("429:1.5") == ErrorLine(status=429, message="a fault was asked for", retry_after=1.5)


@pytest.mark.parametrize("text", ["sneeze", "200", "429:soon", ""])
def test_an_unknown_fault_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(ConfigError, match="one of: ok, 429:SECONDS, 500, cut,"):
        parse(text)


def test_a_chunk_says_its_length() -> None:
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


EVENTS = [b"data: 1\n\n", b"data: 2\n\n", "data: \u00e9\u00e8\n\n".encode(), b"data: 4\n\n"]
BODY, HALF, REST = b"".join(EVENTS), b"".join(EVENTS[:2]), b"".join(EVENTS[2:])


async def given(fault: Fault) -> tuple[bytes, bool]:
    """What the client has read in the end, and whether the connection could serve another request."""
    goes_on: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        working = asyncio.ensure_future(perform(fault, EVENTS, reader, writer))
        if fault in ("hang", "stall"):
            for _ in range(20):
                await asyncio.sleep(0)
            assert not working.done(), "it waits for the client to go"
            await writer.drain()
            client.close()
        goes_on.set_result(await working)
        writer.close()

    async with asyncio.timeout(60):
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            reader, client = await asyncio.open_connection(*server.sockets[0].getsockname())
            data = await reader.read()
            client.close()
            return data, await goes_on


@pytest.mark.parametrize(
    ("fault", "body", "goes_on"),
    [
        ("cut", HALF + EVENTS[2][:6], False),
        ("early_end", HALF, True),
        ("garbage", HALF + b"data: {\x00\xff not json\n\n" + REST, True),
        ("giant", HALF + b'data: {"type":"ping","choices":[],"padding":"' + b"x" * (2 << 20) + b'"}\n\n' + REST, True),
        ("slow", BODY, True),
        ("split", BODY, True),
    ],
)
async def test_a_stream_breaks_where_the_fault_says(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, body: bytes, goes_on: bool
) -> None:
    monkeypatch.setattr(faults, "GIANT", 2 << 20)
    data, went_on = await given(fault)
    assert data.startswith(CHUNKED) and went_on is goes_on
    chunks = re.findall(rb"([0-9a-f]+)\r\n", data := data.removeprefix(CHUNKED))
    pieces = []
    while data:
        size, _, data = data.partition(b"\r\n")
        pieces.append(data[: int(size, 16)])
        data = data[int(size, 16) + 2 :]
    assert b"".join(pieces) == body and (pieces[-1] == b"") is goes_on, chunks
    if fault in ("slow", "split"):
        assert all(len(piece) <= 7 for piece in pieces) and "\u00e9".encode()[:1] in pieces


async def test_a_wrong_length_leaves_the_client_with_too_much_or_too_little() -> None:
    assert await given("short_length") == (STREAM + b"content-length: %d\r\n\r\n" % (len(BODY) // 2) + BODY, False)
    half = BODY[: len(BODY) // 2]
    assert await given("long_length") == (STREAM + b"content-length: %d\r\n\r\n" % (len(BODY) * 2) + half, False)


async def test_a_page_for_people_is_whole_and_the_next_request_is_served() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(HTML)
    assert await given("html") == (head + HTML, True)


async def test_one_that_says_no_more_waits_until_the_client_has_gone() -> None:
    assert (await given("hang"))[1] is False
    assert (await given("stall"))[1] is False


async def test_a_reset_connection_is_no_mere_end() -> None:
    with pytest.raises(ConnectionResetError):
        await given("reset")
