"""A started program that we talk to: each of its failures is one error, and leaves no process behind."""

import asyncio
import sys
from typing import Any

import pytest

from tests.io.test_link import Lines
from tests.waiting import until
from treadle.errors import Cancelled, NotFound, PeerExited, PeerStalled, RemoteError, RemoteProtocolError
from treadle.io.peer import Patience, Peer
from treadle.io.process import table

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


async def test_messages_that_nobody_took_are_there_for_the_next_who_hears() -> None:
    async with await start("print('one', flush=True); print('two', flush=True); input()") as peer:
        heard = []
        while len(heard) < 2:
            heard.append((await peer.hear()).popleft())
        assert heard == ["one", "two"]


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
    with pytest.raises(PeerStalled, match=r"said nothing for 0\.05 s; its last words: waiting") as told:
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


async def test_a_peer_says_how_it_is_and_its_failures_have_a_hint() -> None:
    peer = await start("import sys; print('no key', file=sys.stderr); sys.exit(2)")
    peer.hint = "sign in first"
    assert repr(peer) == f"<peer 'the program' {peer.child.pid} running>" and not peer.gone
    with pytest.raises(PeerExited, match="code 2; its last words: no key") as error:
        await peer.hear()
    assert error.value.hint == "sign in first" and repr(peer).endswith(" gone>") and peer.exited
    assert (await peer.blame(RemoteError, "failed")).hint == "sign in first"
    blamed = await peer.blame(RemoteError, "failed", hint="another", method="m")
    assert blamed.hint == "another" and blamed.details == {"method": "m", "exit_code": 2, "stderr": "no key"}
    assert blamed.message == "the program failed; its last words: no key"


async def test_the_first_error_that_ends_a_conversation_stays_and_a_handshake_has_its_own_hint() -> None:
    async with await start(ECHO) as peer:
        peer.abort(Cancelled("first"))
        peer.abort(Cancelled("second"))
        with pytest.raises(Cancelled, match="first"):
            await peer.hear()
    slow = await start("import time; time.sleep(600)", handshake=0.05)
    with pytest.raises(PeerStalled, match=r"did not finish the handshake within 0\.05 s") as error:
        async with slow.handshake(hint="is it the right program?"):
            await slow.hear()
    assert error.value.hint == "is it the right program?" and left(slow) == []
    assert Peer.CLOSED is RemoteProtocolError and Patience() == Patience(
        handshake=60.0, cancel=5.0, shutdown=5.0, grace=2.0
    )


async def test_what_was_heard_before_it_exited_comes_first_and_silence_is_the_usual_limit() -> None:
    peer = await start("print('one'); print('two', flush=True)", silence=30)
    heard = [(await peer.hear()).popleft(), (await peer.hear()).popleft()]
    assert heard == ["one", "two"] and peer.link.write_timeout == 30
    with pytest.raises(PeerExited, match="code 0"):
        await peer.hear()
    quiet = await start("import time; time.sleep(600)", silence=0.05)
    with pytest.raises(PeerStalled, match=r"said nothing for 0\.05 s"):
        await quiet.hear()
