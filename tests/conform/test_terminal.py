"""The clauses for a supervisor of terminals: our own keeps each of them, and one fault at a time is found."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from treadle.conform import terminal
from treadle.conform.kit import Broken, Candidate, judge
from treadle.conform.terminal import StatusResponse, Supervised, TerminalClient, read_status
from treadle.errors import RemoteProtocolError

SPOILED = str(Path(__file__).parent / "spoiled_terminal.py")
FAULTS = [
    ("text mode", "the first byte of a connection"),
    ("no mode", "the first byte of a connection"),
    ("talks first", "there is nothing until the client asks"),
    ("little endian", "STATUS is answered with 15 bytes"),
    ("one frame a write", "several frames in one write"),
    ("whole frames only", "byte by byte"),
    ("empty frame", "a frame of length zero"),
    ("ends with a client", "a client that leaves"),
    ("one client", "a second client is served"),
    ("short status", "STATUS is answered with 15 bytes"),
    ("reserved", "STATUS is answered with 15 bytes"),
    ("pid", "pid is that of the program"),
    ("dead", "alive is 1"),
    ("idle", "idle_ms counts"),
    ("unknown state", "output makes the state Active"),
    ("never active", "output makes the state Active"),
    ("no scrollback", "who comes late"),
    ("text only", "in order and unchanged"),
    ("one subscriber", "reaches every subscriber"),
    ("no status while subscribed", "a subscriber may still ask"),
    ("exit code", "EXIT with its code"),
    ("no exit", "EXIT with its code"),
    ("input without zeros", "INPUT reaches the program as it is"),
    ("resize", "RESIZE gives"),
    ("no kill", "KILL sends SIGTERM"),
    ("kill one", "KILL sends SIGTERM"),
    ("kill its child", "KILL sends SIGTERM"),
]


def small(fault: str, patience: float = 60.0) -> Candidate:
    return Candidate(command=(sys.executable, SPOILED, fault), patience=patience)


@pytest.mark.parametrize("sentence", clauses("terminal"))
@pytest.mark.slow
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("terminal", sentence, candidate("terminal", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.slow
async def test_a_small_one_without_a_fault_keeps_them_all() -> None:
    found = await judge(kit("terminal"), small("none"))
    assert [one for one in found if one.outcome != "kept"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "words"), FAULTS, ids=[fault for fault, _ in FAULTS])
async def test_a_fault_is_found(fault: str, words: str) -> None:
    assert await broken("terminal", words, small(fault, 3.0))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("terminal") == {"connection", "STATUS", "SUBSCRIBE", "INPUT, RESIZE and KILL"}


class Written:
    """Takes what a client writes, or refuses it."""

    def __init__(self, *, gone: bool = False) -> None:
        self.data, self.gone, self.closed = b"", gone, False

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        if self.gone:
            raise BrokenPipeError

    def close(self) -> None:
        self.closed = True


def reading(data: bytes, *, ends: bool = True, gone: bool = False) -> tuple[TerminalClient, Written]:
    reader, writer = asyncio.StreamReader(), Written(gone=gone)
    reader.feed_data(data)
    if ends:
        reader.feed_eof()
    return TerminalClient(reader, cast(Any, writer), 0.05), writer


def framed(kind: int, payload: bytes) -> bytes:
    return bytes([kind]) + len(payload).to_bytes(4, "big") + payload


async def test_a_client_reads_frames_and_keeps_what_they_say() -> None:
    client, writer = reading(
        b"\0" + framed(0x81, b"a b a") + framed(0x82, bytes(14) + b"\7") + framed(0x83, b"\xff" * 4)
    )
    assert await client.mode() == 0
    await client.until(b"a", 2)
    assert client.output == b"a b a" and client.exited is None
    assert (await client.status()).reserved == 7 and writer.data == b"\3\0\0\0\0"
    assert await client.exit_code() == -1 == client.exited
    await client.send(4, b"xy")
    assert writer.data == b"\3\0\0\0\0\4\0\0\0\2xy"
    client.close()
    assert writer.closed


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (framed(0x84, b""), r"there is no frame that begins with 84 00 00 00 00 \(waiting for x\)"),
        (framed(0x81, b"x" * 11), "there is no frame that begins with 81 00 00 00 0b"),
        (framed(0x83, b"123"), "EXIT has 3 bytes, not 4"),
        (b"\x81\0", r"it closed the connection \(waiting for x\)"),
        (framed(0x81, b"x" * 5)[:-1], r"it closed the connection \(waiting for x\)"),
    ],
)
async def test_what_is_no_frame_is_an_error_that_says_so(
    data: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "LONGEST", 10)
    with pytest.raises(RemoteProtocolError, match=why):
        await reading(data)[0].frame("x")
    assert await reading(framed(0x81, b"x" * 10))[0].frame("x") == (0x81, b"x" * 10)


async def test_silence_and_a_connection_that_takes_nothing_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RemoteProtocolError, match=r"nothing came within 0.05 s \(waiting for the mode byte\)"):
        await reading(b"", ends=False)[0].mode()
    with pytest.raises(RemoteProtocolError, match="it closed the connection, and takes nothing more"):
        await reading(b"", gone=True)[0].write(b"x")
    with pytest.raises(RemoteProtocolError, match="its socket takes no connection: No such file"):
        await Supervised(str(tmp_path / "none"), 1).raw()


def test_a_status_has_its_numbers_in_their_places() -> None:
    payload = b"\0\0\1\2" + b"\0\0\3\4" + b"\1" + b"\4" + b"\0\0\5\6" + b"\7"
    assert read_status(payload) == StatusResponse(0x102, 0x304, 1, 4, 0x506, 7)
    with pytest.raises(Broken, match="STATUS_RESP has 14 bytes, not 15"):
        read_status(payload[:-1])


class Started:
    """A program that has not made its socket."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code

    async def last_words(self) -> str:
        return " oh no\n"


@pytest.mark.parametrize(
    ("code", "why"), [(3, "it exited with 3: oh no"), (None, "none in 0.05 s: oh no"), (0, "none in 0.05 s: oh no")]
)
async def test_a_socket_that_does_not_come_is_told_with_the_last_words(
    code: int | None, why: str, tmp_path: Path
) -> None:
    with pytest.raises(Broken, match=f"^the socket t.sock did not come, {why}$"):
        await Supervised(str(tmp_path / "t.sock"), 0.05).there(cast(Any, Started(code)))
