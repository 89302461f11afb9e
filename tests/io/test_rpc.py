"""Calls in both directions at once, over two ends in memory."""

import asyncio
from typing import Any

import pytest

from treadle.errors import Busy, InvalidJson, LineTooLong, LocalProtocolError, PeerClosed, Violation
from treadle.io.rpc import CallFailed, Rpc, Then
from treadle.wire.common.jsonrpc import Fault
from treadle.wire.common.rpc import Returned, RpcCall, RpcMessage, RpcNotice, RpcRefused


class Ends:
    """Two ends that talk to each other; what each receives is kept."""

    def __init__(self, answer: Any = None) -> None:
        self.heard: list[RpcMessage] = []
        self.notices: list[RpcNotice] = []

        async def nothing(call: RpcCall) -> Any:
            raise Fault(-32601, "unknown")

        self.ours = Rpc(self._to_theirs, answer=nothing, notice=self.notices.append)
        self.theirs = Rpc(self._to_ours, answer=answer or nothing, notice=self.notices.append)

    async def _to_theirs(self, message: RpcMessage) -> None:
        self.theirs.take([message])

    async def _to_ours(self, message: RpcMessage) -> None:
        self.heard.append(message)
        self.ours.take([message])


async def test_a_call_gives_its_result() -> None:
    async def answer(call: RpcCall) -> Any:
        return {"to": call.method, **call.params}

    assert await Ends(answer).ours.call("add", {"x": 1}) == {"to": "add", "x": 1}


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (Fault(-32002, "not here", {"details": "look elsewhere"}), -32002, "not here: look elsewhere"),
        (Busy("too much"), -32603, "too much"),
        (ValueError("odd"), -32603, "ValueError: odd"),
    ],
)
async def test_what_an_answer_raises_is_an_error_at_the_other_end(raised: Exception, code: int, told: str) -> None:
    async def answer(call: RpcCall) -> Any:
        raise raised

    with pytest.raises(CallFailed, match=told) as error:
        await Ends(answer).ours.call("m", {})
    assert error.value.rpc_code == code and error.value.method == "m"


async def test_several_calls_are_answered_as_they_are_ready() -> None:
    gate = asyncio.Event()

    async def answer(call: RpcCall) -> Any:
        if call.method == "slow":
            await gate.wait()
        return call.method

    ends = Ends(answer)
    slow = asyncio.create_task(ends.ours.call("slow", {}))
    assert await ends.ours.call("quick", {}) == "quick"
    gate.set()
    assert await slow == "slow"


async def test_what_follows_an_answer_comes_after_it() -> None:
    ends: Ends

    async def later() -> None:
        await ends.theirs.tell("later", {})

    async def answer(call: RpcCall) -> Any:
        return Then("first", later)

    ends = Ends(answer)
    assert await ends.ours.call("m", {}) == "first"
    while len(ends.heard) < 2:
        await asyncio.sleep(0)
    assert [type(message) for message in ends.heard] == [Returned, RpcNotice]


async def test_a_line_too_long_may_have_been_an_answer_so_nobody_waits_for_it() -> None:
    ends = Ends(lambda call: asyncio.Event().wait())
    waiting = asyncio.create_task(ends.ours.call("m", {}))
    while not ends.theirs.answering:
        await asyncio.sleep(0)
    ends.ours.take([LineTooLong("a line is longer than 4 bytes")])
    with pytest.raises(LineTooLong):
        await waiting
    await ends.theirs.close()


async def test_an_unreadable_call_is_refused_by_its_id_and_garbage_is_only_kept() -> None:
    ends = Ends()
    ends.theirs.take([Violation("params are a list", details={"id": 4, "code": -32602}), Violation("noise")])
    while not ends.heard:
        await asyncio.sleep(0)
    assert ends.heard == [RpcRefused(id=4, code=-32602, message="params are a list")]
    assert len(ends.theirs.unread) == 2


async def test_who_complains_answers_what_is_no_json_and_goes_on() -> None:
    said: list[RpcMessage] = []

    async def say(message: RpcMessage) -> None:
        said.append(message)

    rpc = Rpc(say, answer=lambda call: asyncio.sleep(0), notice=lambda notice: None, complains=True)
    rpc.take([InvalidJson("not JSON"), LineTooLong("too long")])
    await asyncio.gather(*rpc.answering.values())
    assert [(type(message), getattr(message, "code", 0)) for message in said] == [(RpcRefused, -32700)] * 2


async def test_a_late_answer_is_ignored() -> None:
    ends = Ends(lambda call: asyncio.Event().wait())
    waiting = asyncio.create_task(ends.ours.call("m", {}))
    while not ends.theirs.answering:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    ends.ours.take([Returned(id=1, result="late"), RpcRefused(id=None, code=1, message="whose?")])
    await ends.theirs.close()


async def test_a_peer_that_is_gone_when_the_answer_is_ready_costs_nothing() -> None:
    async def gone(message: RpcMessage) -> None:
        raise LocalProtocolError("not now")

    async def answer(call: RpcCall) -> Any:
        return 1

    rpc = Rpc(gone, answer=answer, notice=lambda notice: None)
    rpc.take([RpcCall(id=1, method="m")])
    await asyncio.gather(*rpc.answering.values())


async def test_a_call_has_a_number_of_its_own_that_is_noted_before_it_is_sent() -> None:
    noted: list[Any] = []

    async def answer(call: RpcCall) -> Any:
        assert noted[-1] == call.id
        return None

    ends = Ends(answer)
    assert await ends.ours.call("m", {}, noted.append) is None and await ends.ours.call("m", {}, noted.append) is None
    assert len(set(noted)) == 2
    await ends.ours.tell("changed", {"x": 1})
    assert ends.notices == [RpcNotice(method="changed", params={"x": 1})]
    await asyncio.sleep(0)
    assert ends.theirs.answering == {} and ends.ours.answering == {}


async def test_what_is_being_answered_ends_when_it_is_closed_and_calls_can_fail_one_time() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def answer(call: RpcCall) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    ends = Ends(answer)
    calling = asyncio.create_task(ends.ours.call("m", {}))
    await begun.wait()
    assert len(ends.theirs.answering) == 1
    ends.ours.fail(Busy("later"))
    with pytest.raises(Busy, match="later"):
        await calling
    await ends.theirs.close()
    assert ended.is_set() and ends.theirs.answering == {}
    again = asyncio.create_task(ends.ours.call("m", {}))
    await asyncio.sleep(0)
    assert not again.done(), "others may follow"
    for error in (PeerClosed("first"), PeerClosed("second")):
        ends.ours.lost(error)
    with pytest.raises(PeerClosed, match="first"):
        await again
    with pytest.raises(PeerClosed, match="first"):
        await ends.ours.call("m", {})
    await ends.theirs.close()


async def test_the_last_ten_that_could_not_be_read_are_kept() -> None:
    ends = Ends()
    for number in range(12):
        ends.ours.take([Violation(f"odd {number}")])
    assert [error.message for error in ends.ours.unread] == [f"odd {number}" for number in range(2, 12)]
