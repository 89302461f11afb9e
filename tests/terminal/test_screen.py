"""What a person would see, compared with what was seen when the recordings were made."""

import os
from pathlib import Path

import pytest

from tests.terminal.recordings import NAMES, load
from tests.terminal.support import Stage, connected, until, watch
from treadle.terminal.picture import save
from treadle.terminal.screen import Screen, palette, snapshot, story

BULK = "head -c 17000000 /dev/zero | tr '\\0' x"


@pytest.mark.parametrize("name", NAMES)
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


def test_a_screen_of_more_output_than_one_file_holds_is_still_shown(stage: Stage) -> None:
    place = stage.start("sh", "-c", f"{BULK}; seq 1 6; printf last; read x", scrollback_bytes=1000, cols=20, rows=5)
    until(lambda: snapshot(place)["lines"] == ["3", "4", "5", "6", "last"])
    assert os.path.exists(f"{place.out}.1")


def test_a_picture_has_the_colours_of_the_screen(tmp_path: Path) -> None:
    from PIL import Image

    with Screen(10, 3) as screen:
        screen.feed("\x1b[41mred\x1b[0m \x1b[38;2;0;255;0mgrün\x1b[0m\r\n\x1b[7minverse\x1b[0m 界".encode())
        assert [cell.text for cell in screen.cells(1)[:10]] == [*"inverse", " ", "界", ""]
        save(screen, str(tmp_path / "x.png"))
    image = Image.open(tmp_path / "x.png").convert("RGB")
    colours = {colour for _, colour in image.getcolors(100_000) or []}
    assert {palette(1), (0, 255, 0), (18, 18, 18), (229, 229, 229)} <= colours


def test_the_story_of_a_session_that_said_nothing_is_an_empty_screen(stage: Stage) -> None:
    place = stage.start("sleep", "60", cols=10, rows=2)
    with story(place).screen() as screen:
        assert screen.lines() == ["", ""]
    assert watch(stage.start("true"))[0] == b""
