"""A sidecar that is started and ended. What it can do wrong in a run is tried with `tests.stand_ins.bad_sidecar`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.host.conftest import PINGING, QUICK, order
from tests.stand_ins import bad_sidecar
from treadle.drivers.sidecar.peer import SidecarPeer, Timing
from treadle.errors import (
    Cancelled,
    NotFound,
    PeerExited,
    PeerFatal,
    PeerStalled,
    RemoteProtocolError,
    TreadleError,
)
from treadle.io.process import table


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-sidecar"):
        await SidecarPeer.spawn(["no-such-sidecar"], env={"PATH": "/usr/bin"}, cwd="/")


async def test_closing_twice_is_closing_once() -> None:
    peer = await SidecarPeer.spawn([sys.executable, "-c", "import time; time.sleep(600)"], env={}, cwd="/")
    await asyncio.gather(peer.close(), peer.close())
    assert peer.gone and table.look(peer.child.pid) is None
    pipes = [end for _ in range(5) for end in os.pipe()]  # they get the numbers that were free
    await peer.close()
    for end in pipes:
        os.close(end)  # fails when the peer has closed it again


RUN_ID = "00000000-0000-4000-8000-000000000001"


def act(name: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(bad_sidecar.__file__), name]


@asynccontextmanager
async def running(name: str, timing: Timing = QUICK) -> AsyncIterator[SidecarPeer]:
    async with await SidecarPeer.spawn(act(name), env={}, cwd="/", name="it", timing=timing) as peer:
        yield peer
    assert peer.gone and table.look(peer.child.pid) is None


async def carried_out(peer: SidecarPeer, root: Path) -> list[str]:
    """The kinds of events of one run."""
    return [
        type(event).__name__ for batch in [batch async for batch in peer.run(order(root), RUN_ID)] for event in batch
    ]


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("no_hello", PeerStalled, "sent no hello within 0.5 s; its last words: still loading (does it write its hello"),
        ("exit_before_hello", PeerExited, "cannot find module"),
        ("fatal_instead_of_hello", TreadleError, "ANTHROPIC_API_KEY not set"),
        ("event_before_hello", TreadleError, "hello"),
        ("log_before_hello", RemoteProtocolError, ""),
        ("other_major_version", TreadleError, "abp/v1.0"),
    ],
)
async def test_what_comes_in_place_of_a_hello_is_one_error(name: str, error: type[TreadleError], words: str) -> None:
    timing = replace(QUICK, handshake=0.5) if name == "no_hello" else QUICK
    async with running(name, timing) as peer:
        with pytest.raises(error) as caught:
            await peer.await_hello()
        assert words in f"{caught.value} {caught.value.hint}" and peer.hello is None


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("fatal", PeerFatal, "model refused"),
        ("fatal_without_ref", PeerFatal, "ANTHROPIC_API_KEY not set"),
        ("exit_without_final", PeerExited, "out of memory"),
        ("clean_exit_without_final", PeerExited, ""),
        ("killed", PeerExited, ""),
        ("not_json", RemoteProtocolError, ""),
    ],
)
async def test_every_way_in_which_a_run_can_end_is_one_error(
    name: str, error: type[TreadleError], words: str, tmp_path: Path
) -> None:
    async with running(name) as peer:
        await peer.await_hello()
        with pytest.raises(error) as caught:
            await carried_out(peer, tmp_path)
        assert words in f"{caught.value} {caught.value.hint} {caught.value.details}" and peer.final is None
        if error is PeerFatal:
            code = "backend_auth_failed" if name == "fatal" else None
            assert caught.value.details["error_code"] == code


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        ("good", []),
        ("hello_again", [("hello", "sent again")]),
        ("pong_that_was_not_asked_for", [("pong", "no one asked for it")]),
        ("talk_after_final", []),
        ("final_twice", []),
    ],
)
async def test_after_the_final_message_nothing_more_is_read(name: str, notes: list[Any], tmp_path: Path) -> None:
    async with running(name) as peer:
        assert (await peer.await_hello()).backend.id == "bad"
        kinds = await carried_out(peer, tmp_path)
        assert peer.final is not None and peer.final.receipt is not None
        assert [(note.where, note.problem) for note in peer.notes] == notes
        await peer.cancel("too late")
        assert peer.failure is None and peer._cancelling is None
    assert peer.child.exit_code == 0, "it was left to exit by itself"
    if name == "good":
        assert kinds == ["RunStarted", "FileWritten", "AssistantSaid", "RunCompleted"]


@pytest.mark.parametrize(("name", "stops"), [("stops_when_cancelled", True), ("hang", False)])
async def test_one_that_is_cancelled_ends_itself_or_is_ended(name: str, stops: bool, tmp_path: Path) -> None:
    async with running(name) as peer:
        await peer.await_hello()
        heard = peer.run(order(tmp_path), RUN_ID)
        await anext(heard)
        await peer.cancel("enough")
        await peer.cancel("again")
        if stops:
            assert [batch async for batch in heard] == [] and peer.final is not None
        else:
            with pytest.raises(Cancelled, match="did not stop within 0.5 s"):
                await anext(heard)


async def test_one_that_is_cancelled_before_its_run_is_ended_at_once(tmp_path: Path) -> None:
    async with running("no_hello") as peer:
        await peer.cancel("enough")
        with pytest.raises(Cancelled, match="was not ready yet"):
            await peer.await_hello()


async def test_pings_are_counted_and_one_that_does_not_answer_them_has_stalled(tmp_path: Path) -> None:
    async with running("answers_pings_and_then_stops", PINGING) as peer:
        await peer.await_hello()
        with pytest.raises(PeerStalled, match="it has stalled: "):
            await carried_out(peer, tmp_path)
        assert any("bad_sidecar" in line for line in peer.commands_seen)


SPOKEN = "echo sad >&2; echo nonsense; cat"


async def test_what_a_program_says_before_it_fails_is_in_the_hint(tmp_path: Path) -> None:
    async with await SidecarPeer.spawn(["sh", "-c", SPOKEN], env=os.environ, cwd="/", name="it", timing=QUICK) as peer:
        with pytest.raises(RemoteProtocolError) as caught:
            await peer.await_hello()
        assert caught.value.hint == "its last words: sad"
        kept = await peer._explained(RemoteProtocolError("x", hint="better"))
        assert kept.hint == "better"


async def test_a_line_that_was_not_finished_is_noted_beside_how_it_ended(tmp_path: Path) -> None:
    async with running("exit_inside_a_line") as peer:
        await peer.await_hello()
        with pytest.raises(PeerExited):
            await carried_out(peer, tmp_path)
        assert [note.where for note in peer.notes] == ["output"] and peer.torn is None


async def test_what_ran_below_it_is_kept_up_to_a_number_and_a_length() -> None:
    word = "x" * 600
    argv = ["sh", "-c", f"cat; : {word}"]
    async with await SidecarPeer.spawn(argv, env=os.environ, cwd="/", name="it", timing=QUICK) as peer:
        peer.commands_seen = {str(number): None for number in range(200)}
        peer._look(0.0)
        assert len(peer.commands_seen) == 200
        peer.commands_seen.popitem()
        peer._look(0.0)
        assert len(peer.commands_seen) == 200 and max(map(len, peer.commands_seen)) == 500
        assert (peer.wire.role, peer.patience.grace, peer.patience.shutdown) == ("host", 1.0, QUICK.exit_grace)
        assert (peer.patience.handshake, peer.patience.cancel) == (QUICK.handshake, QUICK.cancel_grace)
