"""ControlRequests requests: each answer finds who waits for it, and no one waits for ever."""

import asyncio
from typing import Any

import pytest

from treadle.drivers.claude.gate import ControlRequests
from treadle.errors import PeerClosed, RemoteError
from treadle.wire.claude.connection import ControlRequest


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


async def test_each_request_has_a_number_and_is_answered_or_refused_by_it() -> None:
    peer = Peer()
    one, two = await peer.asked("one", "two")
    assert [(each.request_id, each.request) for each in peer.said] == [
        ("treadle-1", {"subtype": "one"}),
        ("treadle-2", {"subtype": "two"}),
    ]
    peer.control.answered({"subtype": "success", "request_id": "treadle-1", "response": 1})
    peer.control.lost(PeerClosed("gone"))
    assert await one == 1, "what was answered before it was lost stays answered"
    with pytest.raises(PeerClosed):
        await two
    refused = asyncio.create_task(peer.control.request({}))
    while len(peer.said) < 3:
        await asyncio.sleep(0)
    peer.control.answered({"subtype": "error", "request_id": "treadle-3"})
    with pytest.raises(RemoteError, match="claude refused: no reason given"):
        await refused
    asked = ControlRequest(request_id="theirs", request={})
    await peer.control.reply(asked, {"a": 1})
    await peer.control.refuse(asked, "not offered")
    yes, no = (each.response for each in peer.said[3:])
    assert yes == {"subtype": "success", "request_id": "theirs", "response": {"a": 1}}
    assert no == {"subtype": "error", "request_id": "theirs", "error": "not offered"}
    waiting = asyncio.create_task(asyncio.sleep(600))
    peer.control.asked["r"] = waiting
    peer.control.taken_back("r")
    peer.control.taken_back("unknown")
    assert peer.control.asked == {}
    await asyncio.wait([waiting])
    assert waiting.cancelled()
