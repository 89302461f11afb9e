"""A program that we talk to: messages both ways, calls at once, and each of its failures is one error."""

import asyncio
import sys
from typing import Any

import pytest

from tests.streams import pair
from tests.waiting import until
from treadle.errors import (
    Busy,
    Cancelled,
    InvalidJson,
    LineTooLong,
    LocalProtocolError,
    NotFound,
    PeerClosed,
    PeerExited,
    PeerStalled,
    RemoteError,
    RemoteProtocolError,
    Violation,
)
from treadle.io.link import Link
from treadle.io.peer import Patience, Peer
from treadle.io.process import table
from treadle.io.rpc import CallFailed, Rpc, Then
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsonrpc import Fault
from treadle.wire.common.rpc import Returned, RpcCall, RpcMessage, RpcNotice, RpcRefused


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


ECHO = """
import sys
for line in sys.stdin:
    print("heard", line.strip(), flush=True)
"""


async def start(program: str, wire: Any = None, **patience: Any) -> Peer[Any, str]:
    argv = [sys.executable, "-c", program]
    told = Patience(**{"handshake": 60, "silence": 60, "shutdown": 60, "grace": 0.3, **patience})
    return await Peer.start(argv, wire or Lines(), name="the program", env={}, cwd="/", patience=told)


def left(peer: Peer[Any, str]) -> list[table.Process]:
    return peer.child.tree.processes()


async def test_it_is_spoken_to_and_heard_and_exits_when_we_leave() -> None:
    peer = await start(ECHO)
    async with peer.handshake():
        await peer.say("hello", "again")
        heard = [(await peer.hear()).popleft(), (await peer.hear()).popleft()]
    assert heard == ["heard hello", "heard again"]
    await peer.leave()
    assert (peer.gone, peer.child.exit_code, left(peer)) == (True, 0, [])


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        await Peer.start(["no-such-program"], Lines(), name="x", env={"PATH": "/usr/bin"}, cwd="/")


async def test_hearing_can_be_given_up_and_taken_up_again() -> None:
    async with await start(ECHO) as peer:
        for number in range(20):
            hearing = asyncio.create_task(peer.hear())
            await peer.say(str(number))
            for _ in range(number):
                await asyncio.sleep(0)
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            assert (await peer.hear()).popleft() == f"heard {number}"


async def test_its_exit_is_told_with_its_code_and_its_last_words() -> None:
    peer = await start("import sys; print('bye', flush=True); sys.exit('I am not configured')")
    assert (await peer.hear()).popleft() == "bye"
    with pytest.raises(PeerExited, match="program exited with code 1; its last words: I am not configured") as told:
        await peer.hear()
    assert (told.value.exit_code, peer.gone) == (1, True)
    with pytest.raises(PeerExited, match="code 1"):
        await peer.say("anybody?")


async def test_its_exit_is_seen_though_a_process_it_left_holds_its_output_open() -> None:
    program = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True)"
    peer = await start(program)
    sleeper = int((await peer.hear()).popleft())
    with pytest.raises(PeerExited, match="code 0"):
        await peer.hear()
    assert table.look(sleeper) is None


async def test_half_a_message_at_the_end_does_not_hide_how_it_ended() -> None:
    peer = await start("import sys; sys.stdout.write('hal'); sys.stdout.flush(); sys.exit(3)")
    with pytest.raises(PeerExited, match="code 3"):
        await peer.hear()
    assert peer.torn is not None and "inside a line" in peer.torn.message


async def test_one_that_closes_its_output_and_goes_on_running_is_ended() -> None:
    peer = await start("import os, time; os.close(1); time.sleep(600)")
    with pytest.raises(RemoteProtocolError, match="closed its output and went on running"):
        await peer.hear()
    assert (peer.gone, left(peer)) == (True, [])


async def test_silence_has_its_limit() -> None:
    peer = await start("import sys, time; print('waiting', file=sys.stderr, flush=True); time.sleep(600)")
    await until(lambda: "waiting" in peer.child.tail.text)
    with pytest.raises(PeerStalled, match=r"sent nothing for 0\.05 s; its last words: waiting") as told:
        await peer.hear(0.05)
    assert told.value.details["stderr"] == "waiting" and left(peer) == []


async def test_one_that_takes_no_input_has_stalled() -> None:
    peer = await start("import time; time.sleep(600)", silence=0.2)
    with pytest.raises(PeerStalled, match=r"took no input for 0\.2 s"):
        await peer.say("x" * 1_000_000)
    assert left(peer) == []


async def test_a_handshake_has_its_time_for_all_of_it() -> None:
    chatter = "import time\nwhile True: print('soon', flush=True); time.sleep(0.01)"
    peer = await start(chatter, handshake=0.3)
    with pytest.raises(PeerStalled, match=r"did not answer the initialize within 0\.3 s"):
        async with peer.handshake("did not answer the initialize"):
            while True:
                (await peer.hear()).clear()
    assert left(peer) == []


async def test_a_handshake_left_with_any_error_ends_the_program() -> None:
    peer = await start(ECHO)
    with pytest.raises(ZeroDivisionError):
        async with peer.handshake():
            raise ZeroDivisionError
    assert (peer.gone, left(peer)) == (True, [])


async def test_a_wire_that_cannot_read_it_is_its_fault() -> None:
    class Strict(Lines):
        def receive(self, data: bytes) -> list[Any]:
            raise RemoteProtocolError("not a line")

    peer = await start(ECHO, Strict())
    await peer.say("hello")
    with pytest.raises(RemoteProtocolError, match="the program broke the protocol: not a line"):
        await peer.hear()
    assert left(peer) == []


async def test_who_waits_gets_the_error_that_the_conversation_was_aborted_with() -> None:
    async with await start(ECHO) as peer:
        hearing = asyncio.create_task(peer.hear())
        await asyncio.sleep(0)
        peer.abort(Cancelled("the person went home"))
        with pytest.raises(Cancelled, match="went home"):
            await hearing
        with pytest.raises(Cancelled, match="went home"):
            await peer.say("still there?")
    assert left(peer) == []


async def test_blame_ends_it_and_says_what_it_did() -> None:
    peer = await start(ECHO)
    error = await peer.blame(RemoteError, "refused to start", method="initialize")
    assert error.message == "the program refused to start"
    assert error.details["method"] == "initialize" and "exit_code" in error.details
    assert left(peer) == []


async def test_one_that_does_not_exit_when_we_leave_is_ended_with_all_it_started() -> None:
    program = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    peer = await start(program, shutdown=0.1)
    sleeper = int((await peer.hear()).popleft())
    await asyncio.gather(peer.leave(), peer.end(), peer.end())
    assert (peer.gone, table.look(sleeper)) == (True, None)


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
