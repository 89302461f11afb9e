"""The keys after the prefix of `attach`, as a person presses them."""

import os
import subprocess
from pathlib import Path

from tests.terminal.support import Stage, alive, connected, until
from tests.terminal.tmux import Tmux, attach
from treadle.terminal.listing import row

ASKS = r"printf '\033]7501;state=blocked:kind=permission\033\\'"


def test_the_help_says_what_each_key_does_and_any_key_comes_back_to_the_same_screen(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo first line; printf 'prompt> '; exec cat")
    tmux.window("me", attach(place))
    tmux.shows("me", "prompt>")
    before = tmux.screen("me")
    tmux.type("me", "C-]", "?")
    tmux.shows("me", "Ctrl-] n   go to the terminal that has waited")
    tmux.type("me", "q")
    until(lambda: tmux.screen("me") == before)
    tmux.type("me", "typed", "Enter")
    until(lambda: tmux.screen("me").count("typed") == 2)
    assert "prompt> typed" in tmux.screen("me") and tmux.screen("me").count("first line") == 1


def test_output_that_comes_while_the_help_is_open_is_there_afterwards_once(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("cat")
    tmux.window("me", attach(place))
    with connected(place) as client:
        client.input(b"before\n")
        until(lambda: tmux.screen("me").count("before") == 2)
        tmux.type("me", "C-]", "h")
        tmux.shows("me", "any key: back")
        client.input(b"meanwhile\n")
        until(lambda: client.detail()["last_line"] == "meanwhile")
    tmux.type("me", "q")
    until(lambda: tmux.screen("me").count("meanwhile") == 2)
    assert tmux.screen("me").count("before") == 2


def test_a_full_screen_program_is_shown_again_after_the_help_with_its_modes(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", r"printf '\033[?1049h\033[2J\033[5;5Hwhole screen\033[?25l'; exec cat")
    tmux.window("me", attach(place))
    tmux.shows("me", "whole screen")
    tmux.type("me", "C-]", "?")
    tmux.shows("me", "any key: back")
    tmux.type("me", "q")
    screen = tmux.shows("me", "whole screen")
    assert "any key" not in screen
    assert tmux("display-message", "-p", "-t", "me", "#{alternate_on} #{cursor_flag}").split() == ["1", "0"]
    tmux.type("me", "C-]", "d")
    tmux.shows("me", "detached")
    until(lambda: tmux("display-message", "-p", "-t", "me", "#{alternate_on} #{cursor_flag}").split() == ["0", "1"])


def test_one_key_goes_to_the_terminal_that_asks_and_one_back(stage: Stage, tmux: Tmux) -> None:
    here = stage.start("sh", "-c", "echo at home; exec cat", id="home")
    stage.start("sh", "-c", f"echo may I?; {ASKS}; exec cat", id="asker")
    until(lambda: row(type(here)(here.directory, "asker"))["state"] == "permission")
    tmux.window("me", attach(here, "--bar"))
    tmux.shows("me", "[treadle] home")
    tmux.type("me", "C-]", "n")
    tmux.shows("me", "[treadle] asker")
    tmux.shows("me", "may I?")
    tmux.type("me", "C-]", "n")
    tmux.shows("me", "No other terminal waits for a person.")
    tmux.type("me", "q")
    tmux.shows("me", "may I?")
    tmux.type("me", "C-]", "l")
    tmux.shows("me", "[treadle] home")
    tmux.type("me", "C-\\")
    tmux.shows("me", "[detached from session home]")


def test_it_is_renamed_and_ended_from_inside(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo ready; exec cat", id="old")
    child = place.pids()[1]
    tmux.window("me", attach(place, "--bar"))
    tmux.shows("me", "ready")
    tmux.type("me", "C-]", "r")
    tmux.shows("me", "another id for old:")
    tmux.type("me", "C-u", "new", "Enter")
    tmux.shows("me", "[treadle] new")
    tmux.type("me", "C-]", "k")
    tmux.shows("me", "Type yes:")
    tmux.type("me", "no", "Enter")
    tmux.shows("me", "[treadle] new")
    assert alive(child)
    tmux.type("me", "C-]", "k")
    tmux.shows("me", "Type yes:")
    tmux.type("me", "yes", "Enter")
    tmux.shows("me", "session exited with code")
    assert not alive(child)


def test_what_has_scrolled_away_is_looked_at_and_searched(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line-$i; done; exec cat")
    tmux.window("me", attach(place))
    tmux.shows("me", "line-200")
    tmux.type("me", "C-]", "[")
    tmux.shows("me", "200 of 200")
    tmux.type("me", "g")
    until(lambda: tmux.screen("me").startswith("line-1\nline-2\n"))
    tmux.type("me", "G", "/")
    tmux.shows("me", "search:")
    tmux.type("me", "LINE-77", "Enter")
    tmux.shows("me", "'LINE-77' is not in it")
    tmux.type("me", "/")
    tmux.shows("me", "search:")
    tmux.type("me", "C-u", "line-77", "Enter")
    until(lambda: "line-77\n" in tmux.screen("me"))
    tmux.type("me", "q")
    until(lambda: "line-200" in (screen := tmux.screen("me")) and "of 200" not in screen)


def test_the_bar_names_the_branch_and_comes_and_goes_with_a_key(stage: Stage, tmux: Tmux, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "topic/x", tmp_path], check=True)
    place = stage.start("sh", "-c", "echo ready; exec cat", workdir=str(tmp_path))
    tmux.window("me", attach(place))
    tmux.shows("me", "ready")
    tmux.type("me", "C-]", "b")
    assert "Ctrl-] ?: keys" in tmux.shows("me", f"[treadle] {place.id}  topic/x")
    tmux.type("me", "C-]", "b")
    until(lambda: "[treadle]" not in tmux.screen("me"))
    assert os.path.exists(place.sock)
