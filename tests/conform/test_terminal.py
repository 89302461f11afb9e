"""The clauses for a supervisor of terminals: our own keeps each of them, and one fault at a time is found."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from treadle.conform.kit import Candidate, judge
from treadle.conform.terminal import TerminalClient
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


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x84\0\0\0\0", "there is no frame that begins with 84"),
        (b"\x81\xff\0\0\0", "there is no frame that begins with 81 ff"),
        (b"\x83\0\0\0\x03123", "EXIT has 3 bytes, not 4"),
        (b"\x82\0\0\0\x01", "it closed the connection"),
    ],
)
async def test_what_is_no_frame_is_an_error_that_says_so(data: bytes, why: str) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    with pytest.raises(RemoteProtocolError, match=why):
        await TerminalClient(reader, cast(Any, None), 60.0).frame("x")
