"""`attach` as a person uses it, driven by tmux: type, resize, detach, come back, two at once, the exit code."""

import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.installed import TREADLE
from tests.terminal.support import Stage, alive, connected, until
from tests.terminal.tmux import Tmux, attach
from treadle.io.process import table


def test_a_person_types_and_sees_and_the_exit_code_is_passed_on(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", 'read name; echo "hello $name"; exit 7')
    tmux.window("me", attach(place))
    with connected(place) as client:
        until(lambda: any(entry["terminal"] for entry in client.detail()["clients"]))
    tmux.type("me", "world", "Enter")
    tmux.shows("me", "hello world")
    tmux.shows("me", "[session exited with code 7]")
    tmux.shows("me", "code:7")


def test_run_starts_and_attaches_with_the_windows_size_and_passes_the_code_on(tmux: Tmux, tmp_path: Path) -> None:
    command = shlex.join([TREADLE, "run", "--socket-dir", str(tmp_path / "t"), "--linger", "0", "--"])
    tmux.window("me", f"{command} sh -c 'stty size; read x; exit 6'")
    tmux.shows("me", "24 80")
    tmux.type("me", "Enter")
    tmux.shows("me", "code:6")


def test_detach_leaves_the_program_and_gives_the_terminal_back(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "stty raw -echo; echo ready; exec cat")
    tmux.window("me", attach(place))
    tmux.shows("me", "ready")
    tmux.type("me", "C-\\")
    tmux.shows("me", f"[detached from session {place.id}]")
    tmux.shows("me", "code:0")
    tmux.type("me", "echoed", "Enter")  # `cat` in a terminal that is back in cooked mode
    until(lambda: tmux.screen("me").count("echoed") == 2)
    assert alive(place.pids()[1])


def test_coming_back_shows_what_there_was_and_goes_on(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo before; cat")
    tmux.window("one", attach(place))
    tmux.shows("one", "before")
    tmux.type("one", "meanwhile", "Enter")
    tmux.shows("one", "meanwhile")
    tmux.type("one", "C-\\")
    tmux.shows("one", "detached")
    tmux.window("two", attach(place))
    screen = tmux.shows("two", "meanwhile")
    assert "before" in screen
    tmux.type("two", "again", "Enter")
    until(lambda: tmux.screen("two").count("again") == 2)


def test_two_people_see_the_same_and_both_may_type(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("cat")
    for name in ("one", "two"):
        tmux.window(name, attach(place))
    with connected(place) as client:
        until(lambda: sum(bool(entry["terminal"]) for entry in client.detail()["clients"]) == 2)
        assert sum(bool(entry["leads"]) for entry in client.detail()["clients"]) == 1
    tmux.type("one", "from-one", "Enter")
    tmux.type("two", "from-two", "Enter")
    for name in ("one", "two"):
        tmux.shows(name, "from-one")
        tmux.shows(name, "from-two")


def test_one_who_only_watches_types_nothing_and_changes_no_size(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("cat", cols=70, rows=20)
    tmux.window("watcher", attach(place, "--read-only"))
    with connected(place) as client:
        until(lambda: any(entry["read_only"] for entry in client.detail()["clients"]))
        tmux.type("watcher", "forbidden", "Enter")
        client.input(b"allowed\n")
        tmux.shows("watcher", "allowed\nallowed")  # its echo and the program's own
        detail = client.detail()
        assert (detail["size"]["cols"], detail["size"]["rows"]) == (70, 20)
        assert detail["output"]["end"] == len(b"allowed\r\nallowed\r\n")
    tmux.type("watcher", "C-\\")
    tmux.shows("watcher", "detached")


def test_the_size_follows_the_window_and_is_right_after_coming_back(stage: Stage, tmux: Tmux) -> None:
    code = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
    place = stage.start("bash", "-c", code, cols=10, rows=5)
    with connected(place) as client:  # a resize before the trap is set would go unnoticed
        client.subscribe()
        next(message for message in client.messages(50) if b"ready" in getattr(message, "data", b""))
    tmux.window("me", attach(place))
    tmux.shows("me", "24 80")
    tmux("resize-window", "-t", "me", "-x", "101", "-y", "31")
    tmux.shows("me", "31 101")
    tmux.type("me", "C-\\")
    tmux.shows("me", "detached")
    tmux("new-session", "-d", "-s", "other", "-x", "66", "-y", "18", f"{attach(place)}; exec cat")
    tmux.shows("other", "18 66")


PAINTER = """
import os, signal, tty
tty.setraw(0)
keys = ""
def paint(*_):
    os.write(1, ("\\x1b[H\\x1b[2J" + "".join(f"row {row} {keys}\\r\\n" for row in range(20))).encode())
signal.signal(signal.SIGWINCH, paint)
os.write(1, b"\\x1b[?1049h")
while "q" not in keys:
    paint()
    keys += os.read(0, 100).decode()
os.write(1, b"\\x1b[?1049l")
"""
"""A full-screen program that, unlike some, loses no key that comes while its window changes."""


def test_a_full_screen_program_is_painted_again_for_who_comes_back(stage: Stage, tmux: Tmux) -> None:
    place = stage.python(PAINTER, scrollback_bytes=100, cols=80, rows=24)
    tmux.window("one", attach(place))
    tmux.shows("one", "row 0")
    tmux.type("one", "x")
    tmux.shows("one", "row 19 x")
    tmux.type("one", "C-\\")
    screen = tmux.shows("one", "detached")
    assert "row 19" not in screen  # the alternate screen was left
    tmux.window("two", attach(place))
    tmux.shows("two", "row 0 x")
    tmux.type("two", "q")
    tmux.shows("two", "code:0")


def test_ctrl_c_and_arrows_reach_the_program_and_nobody_else(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "stty raw -echo; echo ready; dd bs=1 count=4 2>/dev/null | od -An -c; sleep 60")
    tmux.window("me", attach(place))
    tmux.shows("me", "ready")
    tmux.type("me", "C-c", "Up")
    tmux.shows("me", "003 033   [   A")


def test_a_pasted_detach_key_is_content(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "stty raw -echo; echo ready; dd bs=1 count=3 2>/dev/null | od -An -c; sleep 60")
    tmux.window("me", attach(place))
    tmux.shows("me", "ready")
    tmux("set-buffer", "a\x1cb")
    as_it_is = ["-S"] if "S]" in tmux("list-commands", "paste-buffer") else []  # newer ones replace control characters
    tmux("paste-buffer", *as_it_is, "-t", "me")
    tmux.shows("me", "a 034   b")


def test_signals_to_attach_end_only_attach(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo ready; exec cat")
    for number, words in (
        (signal.SIGTERM, "[terminated]"),
        (signal.SIGQUIT, "[terminated]"),
        (signal.SIGHUP, "code:0"),
    ):
        name = f"w{int(number)}"
        tmux.window(name, f"{attach(place)}")
        tmux.shows(name, "ready")
        shell = int(tmux("display-message", "-p", "-t", name, "#{pane_pid}"))
        [attached] = until(lambda shell=shell: table.descendants(shell))
        os.kill(attached.pid, number)
        tmux.shows(name, words)
        assert alive(place.pids()[1])


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_shell_can_stop_attach_and_have_the_terminal_meanwhile(stage: Stage, tmux: Tmux, number: int) -> None:
    modes = stage.directory / "modes"
    place = stage.python(PAINTER)
    meanwhile = f"stty -a >{modes}.new; stty sane; mv {modes}.new {modes}"
    tmux.window("me", f"bash --norc -c 'set -m; {attach(place)}; {meanwhile}; fg'")
    tmux.shows("me", "row 19")
    shell = int(tmux("display-message", "-p", "-t", "me", "#{pane_pid}"))
    _, attached = until(lambda: len(found := table.descendants(shell)) == 2 and found)
    os.kill(attached.pid, number)
    until(modes.exists)
    if number == signal.SIGTSTP:
        assert " icanon" in modes.read_text()
    tty = tmux("display-message", "-p", "-t", "me", "#{pane_tty}").strip()
    until(lambda: "-icanon" in subprocess.run(["stty", "-a", "-F", tty], capture_output=True, text=True).stdout)
    tmux.type("me", "x")
    tmux.shows("me", "row 19 x")
    tmux.type("me", "C-\\")
    tmux.shows("me", "code:0")
    assert alive(place.pids()[1])


def test_attaching_to_one_that_has_ended_shows_its_last_words_and_its_code(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("sh", "-c", "echo last words; exit 4", linger=30.0)
    until(lambda: os.path.exists(place.exit))
    tmux.window("me", attach(place))
    tmux.shows("me", "last words")
    tmux.shows("me", "code:4")


def test_the_bar_shows_the_name_and_the_state_and_leaves_the_program_the_rest(stage: Stage, tmux: Tmux) -> None:
    place = stage.start("bash", "-c", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
    tmux.window("me", attach(place, "--bar"))
    screen = tmux.shows("me", "23 80")
    tmux.shows("me", f"[treadle] {place.id}")
    last = screen.rstrip("\n").splitlines()[-1] if screen.strip() else ""
    assert "[treadle]" in last or "[treadle]" in tmux.screen("me").rstrip("\n").splitlines()[-1]
    tmux.type("me", "C-\\")
    tmux.shows("me", "detached")
    assert "[treadle]" not in tmux.screen("me")


def test_queries_of_the_program_are_answered_once_however_often_one_comes_back(stage: Stage, tmux: Tmux) -> None:
    code = r"""
import os, tty
tty.setraw(0)
os.write(1, b"\x1b[6n")
while True:
    data = os.read(0, 100)
    os.write(1, b"<" + data.replace(b"\x1b", b"E") + b">\r\n")
"""
    place = stage.python(code)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"] > 8)  # no one was there: the supervisor answered
        for name in ("one", "two"):
            tmux.window(name, attach(place))
            tmux.shows(name, "<E[1;1R>")
        until(lambda: sum(bool(entry["terminal"]) for entry in client.detail()["clients"]) == 2)
        client.input(b"x")
        tmux.shows("two", "<x>")
        assert tmux.screen("two").count("R>") == 1
