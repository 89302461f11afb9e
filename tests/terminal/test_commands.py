"""From one terminal to the others and back, what has scrolled away, a new one, two side by side, as a person does."""

import re
from pathlib import Path

import pytest

from tests.terminal.support import Stage, connected, until
from tests.terminal.tmux import Tmux, attach
from treadle.io.paths import config_file

LINES = (
    "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); printf '\\033[3%dmline-%d\\033[0m\\n' $((i % 7 + 1)) $i; done; exec cat"
)


@pytest.mark.slow
def test_one_key_shows_the_wall_with_the_terminal_in_front_and_enter_comes_back(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo at home; exec cat", id="home")
    stage.start("sh", "-c", "echo elsewhere; exec cat", id="abroad")
    tmux.window("me", attach(place))
    tmux.shows("me", "at home")
    tmux.type("me", "C-]")
    tmux.shows("me", "elsewhere")
    until(lambda: tmux.screen("me").startswith(" home "))
    tmux.type("me", "Enter")
    tmux.shows("me", "[treadle] home")
    tmux.type("me", "typed", "Enter")
    until(lambda: tmux.screen("me").count("typed") == 2)
    tmux.type("me", "C-\\")
    tmux.shows("me", "elsewhere")
    tmux.type("me", "d")
    tmux.shows("me", "code:0")


@pytest.mark.slow
def test_what_has_scrolled_away_is_looked_at_in_its_colours_searched_and_copied(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", LINES, cols=80, rows=24)
    tmux("set-option", "-s", "set-clipboard", "on")
    tmux.window("me", attach(place))
    tmux.shows("me", "line-2000")
    tmux.type("me", "C-]")
    tmux.shows("me", "[: scroll")
    tmux.type("me", "[")
    tmux.shows("me", "2000 of 2000")
    assert re.search(r"\x1b\[[0-9;]*3[0-9][^m]*mline-1999", tmux("capture-pane", "-e", "-p", "-t", "me"))
    tmux.type("me", "g")
    until(lambda: tmux.screen("me").startswith("line-1\nline-2\n"))
    tmux.type("me", "G", "/")
    tmux.shows("me", "search:")
    tmux.type("me", "LINE-77", "Enter")
    tmux.shows("me", "'LINE-77' is not in it")
    tmux.type("me", "/")
    tmux.shows("me", "search:")
    tmux.type("me", "C-u", "line-777", "Enter")
    until(lambda: "line-777\n" in tmux.screen("me"))
    tmux.type("me", "G", "v", "Up", "y")
    tmux.shows("me", "2 lines were given to your terminal's clipboard")
    assert tmux("show-buffer") == "line-1999\nline-2000"
    tmux.type("me", "q")
    tmux.shows("me", "[: scroll")
    tmux.type("me", "q")
    tmux.shows("me", "code:0")


@pytest.mark.slow
def test_a_command_is_started_in_a_new_terminal_and_two_share_the_view(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo the first; exec cat", id="a1")
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[[terminal.env]]\nname = "ORDINAL"\nvalue = "second"\n')
    tmux.window("me", attach(place))
    tmux("resize-window", "-t", "me", "-x", "130", "-y", "30")
    tmux.shows("me", "the first")
    tmux.type("me", "C-]")
    tmux.shows("me", "c: new")
    tmux.type("me", "c")
    tmux.shows("me", "run which command?")
    tmux.type("me", "C-u", "sh -c 'echo the $ORDINAL; exec cat'", "Enter")
    tmux.shows("me", "the second")
    until(lambda: tmux.screen("me").startswith(" sh "))
    tmux.type("me", "2")
    until(lambda: re.match(r" a1 .*│ sh ", tmux.screen("me")))
    assert tmux.screen("me").splitlines()[0].index("│") == 65
    tmux.type("me", "i")
    tmux.shows("me", "you type into sh")
    tmux.type("me", "hello", "Enter")
    until(lambda: tmux.screen("me").count("hello") == 2)
    tmux.type("me", "C-\\")
    tmux.shows("me", "c: new")
    tmux.type("me", "Tab", "i")
    tmux.shows("me", "you type into a1")
    tmux.type("me", "C-\\")
    tmux.shows("me", "c: new")
    tmux.type("me", "c")
    tmux.shows("me", "run which command?")
    tmux.type("me", "C-u", "no-such-program", "Enter")
    tmux.shows("me", "no-such-program")
    tmux.type("me", "q")
    tmux.shows("me", "code:0")
    with connected(place) as client:
        client.stop(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["click", "wheel"])
def test_the_mouse_puts_one_in_front_and_looks_at_what_has_scrolled_away(stage: Stage, tmux: Tmux, how: str) -> None:
    for name in ("one", "two"):
        place = stage.start("sh", "-c", f"echo this is {name}; exec cat", id=name)
    tmux.window("me", attach(place))
    tmux("resize-window", "-t", "me", "-x", "130", "-y", "30")
    tmux.shows("me", "this is two")
    tmux.type("me", "C-]")
    tmux.shows("me", "this is one")
    button = {"click": 0, "wheel": 64}[how]
    tmux("send-keys", "-t", "me", "-l", f"\x1b[<{button};100;5M")
    if how == "wheel":
        tmux.shows("me", "one  1 of 1")
        tmux.type("me", "q")
    until(lambda: tmux.screen("me").startswith(" one "))
    tmux.type("me", "q")
    tmux.shows("me", "code:0")
