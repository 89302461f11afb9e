"""The pump between a stream and a wire."""

import asyncio

import pytest

from tests.streams import pair
from treadle.errors import PeerStalled, RemoteProtocolError
from treadle.io.link import Link
from treadle.wire.common.framing import LineSplitter


class Lines:
    """The smallest wire: a message is a line."""

    def __init__(self) -> None:
        self.splitter = LineSplitter(1_000_000)
        self.said: list[str] = []

    def receive(self, data: bytes) -> list[str | RemoteProtocolError]:
        return [line.decode() if isinstance(line, bytes) else line for line in self.splitter.feed(data)]

    def send(self, message: str) -> bytes:
        self.said.append(message)
        return message.encode() + b"\n"

    def end(self) -> list[str | RemoteProtocolError]:
        if self.splitter.end():
            raise RemoteProtocolError("ended inside a line")
        return []


def links(write_timeout: float | None = 30) -> tuple[Link[object, str], Link[object, str]]:
    left, right = pair()
    return Link(left, Lines(), write_timeout=write_timeout), Link(right, Lines())


async def test_messages_arrive_in_order_and_the_loop_ends_with_the_peer() -> None:
    left, right = links()

    async def speak() -> None:
        await left.send("one", "two")
        await left.send("three")
        left.stream.close_write()

    speaking = asyncio.create_task(speak())
    assert not right.ended and [message async for message in right] == ["one", "two", "three"]
    await speaking
    assert right.ended and await right.receive() is None and right.write_timeout == 30.0


async def test_what_many_tasks_send_is_sent_as_the_wire_noted_it() -> None:
    left, right = links()
    wire = Lines()
    left.wire = wire

    async def speak() -> None:
        await asyncio.gather(*(left.send(f"{number}" * 20_000) for number in range(10)))
        left.close()

    speaking = asyncio.create_task(speak())
    assert [message async for message in right] == wire.said
    await speaking


async def test_a_peer_that_stops_reading_is_stalled_and_the_stream_is_closed() -> None:
    left, right = links(write_timeout=0.02)
    with pytest.raises(PeerStalled, match=r"not read for 0\.02 s"):
        await left.send("x" * 200_000)
    with pytest.raises(RemoteProtocolError, match="inside a line"):
        async for _ in right:
            pass


async def test_nothing_is_read_while_a_message_is_dealt_with() -> None:
    left, right = links()
    speaking = asyncio.create_task(left.send(*(["x" * 1000] * 1000)))
    async for _ in right:
        done, _ = await asyncio.wait([speaking], timeout=0.02)
        assert not done
        break
    right.close()
    with pytest.raises(Exception, match="no longer reads"):
        await speaking


async def test_an_end_inside_a_message_is_the_peers_error() -> None:
    left, right = links()
    await left.stream.write(b"whole\nhal")
    left.stream.close_write()
    heard = []
    with pytest.raises(RemoteProtocolError):
        async for message in right:
            heard.append(message)
    assert heard == ["whole"]
