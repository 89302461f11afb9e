"""What a person would see, compared with what was seen when the recordings were made."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.terminal.recordings import STARTS, load
from tests.terminal.support import Stage, connected, until
from treadle.terminal.client import Client
from treadle.terminal.viewers.screen import (
    BOLD,
    FAINT,
    INVERSE,
    ITALIC,
    STRUCK,
    UNDERLINED,
    Screen,
    replayed,
    snapshot,
)
from treadle.wire.terminal import frames as wire

BULK = "head -c 17000000 /dev/zero | tr '\\0' x"


@pytest.mark.parametrize("name", STARTS)
def test_at_every_labelled_moment_the_screen_is_what_was_seen(name: str) -> None:
    recording = load(name)
    with Screen(*recording.size) as screen:
        at = 0
        for moment in recording.moments:
            screen.feed(recording.data[at : moment["byte"]])
            at = moment["byte"]
            if moment.get("screen"):
                seen = [line.rstrip() for line in moment["screen"]]
                assert [line for line in screen.lines() if line.strip()] == seen, moment["ms"]
        assert len(screen.lines()) == recording.size[1]


def test_a_wild_size_can_be_looked_at_too() -> None:
    with Screen(0xFFFF, 0xFFFF) as screen:
        screen.feed(b"at the top")
        screen.resize(0, 0)
        screen.resize(0xFFFF, 0xFFFF)
        screen.feed(b"\x1b[Hhere")
        assert screen.lines()[0].startswith("here")


def test_the_alternate_screen_is_shown_while_it_is_on_and_the_old_one_after_it() -> None:
    with Screen(20, 4) as screen:
        screen.feed(b"before\r\n\x1b]0;a title\x07")
        assert not screen.alternate and screen.title == "a title"
        screen.feed(b"\x1b[?1049h\x1b[2J\x1b[Hinside\x1b[?25l")
        assert screen.alternate and not screen.cursor_visible
        assert screen.lines()[0] == "inside"
        screen.feed(b"\x1b[?1049l\x1b[?25h")
        assert screen.lines()[0] == "before" and screen.cursor == (0, 1)


def test_peek_shows_a_running_session_with_the_sizes_it_had(stage: Stage) -> None:
    place = stage.start("sh", "-c", "printf '%s' 0123456789; read x; printf '%s' abcdefghij; read x", cols=5, rows=6)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"] == 10)
        assert snapshot(place)["lines"][:2] == ["01234", "56789"]
        client.resize(20, 6)
        client.input(b"\n")
        until(lambda: client.detail()["output"]["end"] == 22)
    found = snapshot(place)
    assert (found["cols"], found["rows"]) == (20, 6)
    assert found["lines"][:2] == ["0123456789", "abcdefghij"]


def test_peek_shows_one_that_has_ended_and_gone(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo one; echo two", linger=0.0, cols=30, rows=4)
    until(lambda: not os.path.exists(place.pid))
    found = snapshot(place)
    assert (found["cols"], found["rows"], found["lines"]) == (30, 4, ["one", "two", "", ""])


def test_when_the_disk_did_not_take_the_output_the_scrollback_has_to_do(stage: Stage) -> None:
    place = stage.start("sh", "-c", f"read x; {BULK}; echo; echo end; read x", rows=4)
    (stage.directory / f"{place.id}.out.1").mkdir()  # so that it can neither be rotated nor written to afterwards
    with connected(place) as client:
        client.input(b"\n")
        until(lambda: client.detail()["output"]["lost"])
        until(lambda: "end" in snapshot(place)["lines"])


@pytest.mark.slow
def test_a_screen_of_more_output_than_one_file_holds_is_still_shown(stage: Stage) -> None:
    place = stage.start("sh", "-c", f"{BULK}; seq 1 6; printf last; read x", scrollback_bytes=1000, cols=20, rows=5)
    until(lambda: snapshot(place)["lines"] == ["3", "4", "5", "6", "last"])
    assert os.path.exists(f"{place.out}.1")


def test_a_row_is_given_in_pieces_of_one_style_each() -> None:
    with Screen(16, 3) as screen:
        screen.feed("\x1b[1;31mab\x1b[0m c\x1b[7m  \x1b[0m漢字\x1b[38;2;1;2;3;48;5;16mz\x1b[0m  ".encode())
        screen.feed(b"\r\n\x1b[2ma\x1b[0;3mb\x1b[0;4mc\x1b[0;9md\x1b[0m\r\n")
        assert screen.runs(0) == [
            ("ab", "#cd3131", "", BOLD),
            (" c", "", "", 0),
            ("  ", "", "", INVERSE),
            ("漢字", "", "", 0),
            ("z", "#010203", "#000000", 0),
        ]
        flags = (FAINT, ITALIC, UNDERLINED, STRUCK)
        assert screen.runs(1) == [(letter, "", "", flag) for letter, flag in zip("abcd", flags, strict=True)]
        assert screen.runs(2) == []
        screen.feed(b"\x1b[44m   ")
        assert screen.runs(2) == [("   ", "", "#2472c8", 0)], "spaces with a background are seen"


def test_what_has_scrolled_away_is_kept_when_asked_for_and_wrapped_lines_are_joined() -> None:
    with Screen(4, 2, 100) as screen:
        screen.feed(b"abcdef\r\none\r\ntwo")
        assert screen.everything() == ["abcdef", "one", "two"] and screen.lines() == ["one", "two"]
        assert screen.size == (4, 2) and screen.title == ""


def test_a_peer_of_the_plain_protocol_may_take_its_time_before_its_output_and_not_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.terminal.viewers.screen.ANSWER", 50.0)
    monkeypatch.setattr("treadle.terminal.viewers.screen.REPLAYED", 0.0)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def answer() -> socket.socket:
            sock, _ = listener.accept()
            sock.sendall(wire.encode(wire.Mode(0)))
            assert sock.recv(100) == wire.encode(wire.Subscribe())
            sock.sendall(wire.encode(wire.ProgramOutput(b"words")))
            return sock

        answered = pool.submit(answer)
        with Client(str(tmp_path / "s"), timeout=50) as client:
            assert replayed(client) == b"words"
        answered.result(50).close()
