"""ControlRequests requests: each answer finds who waits for it, and no one waits for ever."""

import asyncio
from typing import Any

import pytest

from treadle.drivers.claude.control import ControlRequests
from treadle.errors import PeerClosed, RemoteError


class Peer:
    def __init__(self) -> None:
        self.said: list[Any] = []
        self.control = ControlRequests(self.say)

    async def say(self, record: Any) -> None:
        self.said.append(record)

    async def asked(self, *subtypes: str) -> list[asyncio.Task[Any]]:
        tasks = [asyncio.create_task(self.control.request({"subtype": each})) for each in subtypes]
        while len(self.said) < len(subtypes):
            await asyncio.sleep(0)
        return tasks


async def test_answers_go_to_who_asked_in_whatever_order_they_come() -> None:
    peer = Peer()
    one, two = await peer.asked("one", "two")
    for record in reversed(peer.said):
        said = record.request["subtype"]
        peer.control.answered({"subtype": "success", "request_id": record.request_id, "response": {"said": said}})
        peer.control.answered({"subtype": "success", "request_id": record.request_id, "response": "again"})
    assert [await one, await two] == [{"said": "one"}, {"said": "two"}]
    peer.control.answered({"subtype": "success", "request_id": "nobody's"})


async def test_a_refusal_and_a_lost_peer_are_errors_for_those_who_wait() -> None:
    peer = Peer()
    one, two = await peer.asked("one", "two")
    peer.control.answered({"subtype": "error", "request_id": peer.said[0].request_id, "error": "not here"})
    peer.control.lost(PeerClosed("gone"))
    with pytest.raises(RemoteError, match="not here"):
        await one
    with pytest.raises(PeerClosed):
        await two


async def test_what_it_takes_back_is_given_up() -> None:
    peer = Peer()
    waiting, other = (asyncio.create_task(asyncio.sleep(600)) for _ in range(2))
    peer.control.asked |= {"r1": waiting, "r2": other}
    peer.control.taken_back("r1")
    peer.control.taken_back("unknown")
    await asyncio.wait([waiting])
    assert waiting.cancelled() and not other.done()
    peer.control.drop_all()
    await asyncio.wait([other])
