"""`attach` as a person uses it, driven by tmux: type, resize, detach, come back, two at once, the exit code."""

import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.installed import TREADLE
from tests.terminal.support import Desk, Stage, alive, connected, until
from tests.terminal.tmux import Tmux, attach
from treadle.errors import ConfigError
from treadle.io.process import table
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.terminal.settings import STATE_FILE_VARIABLE, AttachOptions
from treadle.terminal.viewers.attach import Joined, Visit
from treadle.terminal.viewers.attach import attach as attach_here
from treadle.wire.terminal import frames as wire


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


# In this process, with a supervisor that says what the test wants...


class Scripted:
    """The other end of a client's connection."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / "s")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen()
        self._accepted: list[socket.socket] = []

    def client(self, *frames: wire.Frame, timeout: float = 50.0) -> Client:
        """Connected, with these messages on their way to it."""
        with ThreadPoolExecutor(1) as pool:
            accepted = pool.submit(self._accept, b"".join(map(wire.encode, (wire.Mode(0), *frames))))
            client = Client(self._path, timeout=timeout)
            self.sock = accepted.result(50)
            self._accepted.append(self.sock)
        return client

    def _accept(self, says: bytes) -> socket.socket:
        sock, _ = self._listener.accept()
        sock.sendall(says)
        return sock

    def says(self, *frames: wire.Frame) -> None:
        self.sock.sendall(b"".join(map(wire.encode, frames)))

    def got(self) -> list[wire.Frame]:
        """What the client has sent since the last time."""
        self.sock.setblocking(False)
        data = b""
        with suppress(BlockingIOError):
            while more := self.sock.recv(65536):
                data += more
        found = []
        while data:
            size = 5 + int.from_bytes(data[1:5], "big")
            found += [kind.read(data[5:size]) for kind in FRAMES if data[0] == kind.KIND]
            data = data[size:]
        return found

    def close(self) -> None:
        for sock in (self._listener, *self._accepted):
            sock.close()


FRAMES = (wire.Detail, wire.ClientHello, wire.Resize, wire.Subscribe, wire.Input)
WANTED = wire.IS_TERMINAL | wire.WANT_GAPS | wire.FROM


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    made = Scripted(tmp_path)
    yield made
    made.close()


class At:
    """A person who is attached to the scripted supervisor, at a terminal of 40 columns and 10 lines."""

    def __init__(self, scripted: Scripted, desk: Desk, *, start: int = 0, end: int = 0, **more: Any) -> None:
        left, detail = more.pop("left", None), more.pop("detail", {})
        body = {"output": {"start": start}, "modes": {"set": "\x1b[?2004h"}, **detail}
        reply = wire.HelloReply(3, 0, more.pop("replied", start), end, 80, 24)
        self.client = scripted.client(wire.DetailReply(json.dumps(body).encode()), reply)
        self.joined = Joined(self.client, desk.signals, "x", AttachOptions(**more), left)
        try:
            self.joined._begin()
        except ConfigError:
            self.client.close()
            raise
        self.sent = scripted.got()
        self.shown = desk.written()

    def __enter__(self) -> Joined:
        return self.joined

    def __exit__(self, *_: object) -> None:
        self.client.close()


def test_who_attaches_says_what_it_is_and_its_size_and_one_who_only_watches_has_none(
    scripted: Scripted, desk: Desk
) -> None:
    for options, wants, size in (
        ({}, WANTED, wire.Resize(40, 10)),
        ({"read_only": True}, WANTED | wire.READ_ONLY, None),
        ({"bar": True}, WANTED | wire.WANT_STATES, wire.Resize(40, 9)),
        ({"until_answered": True}, WANTED | wire.WANT_STATES, wire.Resize(40, 10)),
    ):
        at = At(scripted, desk, start=7, **options)
        with at as joined:
            sizes = [size] if size else []
            assert at.sent == [wire.Detail(), wire.ClientHello(wants, 7), *sizes, wire.Subscribe()]
            assert "\x1b[?2004h" in at.shown and (joined.live, joined.leads) == (False, False)
            assert ("\x1b[1;9r" in at.shown) == bool(options.get("bar"))
    with At(scripted, desk) as joined:
        assert not joined.modes.on, "from the beginning, the program's own output sets its modes"


def test_the_bar_shows_where_the_program_works_and_which_key_helps(scripted: Scripted, desk: Desk) -> None:
    desk.resize(80, 10)
    for more, key in (({}, True), ({"prefix_key": 0}, False)):
        with At(scripted, desk, bar=True, detail={"workdir": "/somewhere"}, **more) as joined:
            assert joined.bar is not None and joined.bar.workdir == "/somewhere"
            assert ("Ctrl-] ?: keys" in joined.bar.line(80, 0.0)) == key
    with At(scripted, desk, bar=True, detail={"workdir": None}) as joined:
        assert joined.bar is not None and joined.bar.workdir == ""


def test_a_supervisor_without_our_additions_lets_this_terminal_answer(scripted: Scripted, desk: Desk) -> None:
    with scripted.client(timeout=0.01) as client:
        joined = Joined(client, desk.signals, "x", AttachOptions())
        joined._begin()
        assert scripted.got() == [wire.Detail(), wire.Resize(40, 10), wire.Subscribe()]
        assert (joined.live, joined.leads) == (True, True)
        joined._hear(wire.ProgramOutput(b"\x1b[6nx"))
        assert desk.written() == "\x1b[6nx"


def test_a_terminal_is_not_shown_in_itself(
    scripted: Scripted, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_FILE_VARIABLE, "/x.state")
    with pytest.raises(ConfigError, match="this is the terminal x: shown in itself"):
        At(scripted, desk, detail={"state_file": "/x.state"})
    At(scripted, desk, detail={"state_file": "/y.state"}).client.close()
    At(scripted, desk, detail={"state_file": ""}).client.close()
    place = Place(str(tmp_path), "x")
    monkeypatch.setenv(STATE_FILE_VARIABLE, place.state)
    with pytest.raises(ConfigError, match="this is the terminal x"):
        attach_here(place, AttachOptions())


def test_queries_are_left_to_this_terminal_only_if_they_are_new_and_it_leads(scripted: Scripted, desk: Desk) -> None:
    query = b"\x1b[6n"
    with At(scripted, desk, end=10) as joined:
        joined._hear(wire.ProgramOutput(b"old" + query))
        assert desk.written() == "old" and not joined.live
        joined._hear(wire.ProgramOutput(b"end"))
        assert not joined.live, "the last of what there was before"
        joined._hear(wire.ProgramOutput(query + b"new"))
        assert desk.written() == "endnew" and joined.live
        joined._hear(wire.Leader(1))
        joined._hear(wire.ProgramOutput(query + b"mine"))
        assert desk.written() == "\x1b[6nmine"
        joined._hear(wire.Leader(0))
        joined._hear(wire.ProgramOutput(query + b"theirs"))
        assert desk.written() == "theirs"
    with At(scripted, desk, end=7) as joined:
        joined._hear(wire.Leader(1))
        joined._hear(wire.ProgramOutput(b"old" + query + query + b"new"))
        assert desk.written() == "old\x1b[6nnew", "cut where the old ends"


def test_what_was_left_out_is_said_unless_the_program_redraws(scripted: Scripted, desk: Desk) -> None:
    with At(scripted, desk) as joined:
        joined._hear(wire.Gap(5))
        assert desk.written() == "\r\n[treadle: 5 bytes were left out here]\r\n" and joined._offset == 5
        joined._hear(wire.ProgramOutput(b"\x1b[?1049h"))
        desk.written()
        joined._hear(wire.Gap(5))
        assert desk.written() == "" and joined._offset == 18


def test_who_comes_back_goes_on_where_it_was(scripted: Scripted, desk: Desk) -> None:
    with At(scripted, desk) as before:
        before._hear(wire.ProgramOutput(b"\x1b[?2004hsome words"))
    desk.written()
    at = At(scripted, desk, left=before)
    with at as joined:
        assert at.sent[1] == wire.ClientHello(WANTED, 18) and joined.modes is before.modes
        assert at.shown == "\x1b[?2004h" and joined._offset == 18
    at = At(scripted, desk, left=before, start=20)
    with at as joined:
        assert at.sent[1] == wire.ClientHello(WANTED, 20) and "[treadle: 2 bytes were left out here]" in at.shown
    with At(scripted, desk, start=5, replied=9) as joined:
        assert joined._offset == 9


def test_it_ends_with_the_program_or_its_supervisor_or_when_the_question_is_answered(
    scripted: Scripted, desk: Desk
) -> None:
    with At(scripted, desk) as joined:
        scripted.says(wire.ProgramOutput(b"last"), wire.Exit(7))
        assert joined._supervisor_sent() == (7, None) and desk.written() == "last"
        scripted.sock.close()
        assert joined._supervisor_sent() == (1, "[lost session x: its supervisor is gone]\n")
    for until_answered, waiting, settling, end in (
        (True, None, False, (0, "")),
        (True, "permission", False, None),
        (True, None, True, None),
        (False, None, False, None),
    ):
        with At(scripted, desk, until_answered=until_answered, bar=True) as joined:
            state = {"name": "idle", "since_ms": 0, "waiting_for": waiting, "settling": settling}
            scripted.says(wire.StateFrame(json.dumps(state).encode()))
            assert joined._supervisor_sent() == end
            assert joined.bar is not None and ("waiting: permission" if waiting else "idle") in joined.bar.line(80, 0.0)


@pytest.mark.parametrize(
    ("number", "end", "interrupted"),
    [
        (signal.SIGHUP, (0, ""), 0),
        (signal.SIGTERM, (0, "[terminated]\n"), 0),
        (signal.SIGQUIT, (0, "[terminated]\n"), 0),
        (signal.SIGTSTP, (0, ""), signal.SIGTSTP),
        (signal.SIGCONT, (0, ""), signal.SIGCONT),
        (signal.SIGWINCH, None, 0),
    ],
)
def test_each_signal_has_its_effect(
    scripted: Scripted, desk: Desk, number: int, end: tuple[int, str] | None, interrupted: int
) -> None:
    with At(scripted, desk, bar=True) as joined:
        desk.resize(50, 20)
        desk.signalled(number)
        assert (joined._signalled(), joined.interrupted) == (end, interrupted)
        assert scripted.got() == ([wire.Resize(50, 19)] if number == signal.SIGWINCH else [])
        assert ("\x1b[1;19r" in desk.written()) == (number == signal.SIGWINCH)
    with At(scripted, desk, read_only=True) as joined:
        desk.signalled(signal.SIGWINCH)
        assert joined._signalled() is None and scripted.got() == [] and desk.written() == ""


def test_what_is_typed_is_for_the_program_but_for_two_keys(scripted: Scripted, desk: Desk) -> None:
    detached = (0, "[detached from session x]\n")
    for keys, end, command, sent in (
        (b"hello", None, "", [wire.Input(b"hello")]),
        (b"\x1c", detached, "", []),
        (b"a\x1cb", None, "", [wire.Input(b"a\x1cb")]),
        (b"\x1dd", detached, "", []),
        (b"\x1d?", (0, ""), "?", []),
        (b"\x1d", None, "", []),
    ):
        with At(scripted, desk) as joined:
            desk.types(keys)
            assert (joined._person_typed(), joined.command, scripted.got()) == (end, command, sent), keys
    with At(scripted, desk, read_only=True) as joined:
        desk.types(b"hello")
        assert joined._person_typed() is None and scripted.got() == []
    with At(scripted, desk) as joined:
        scripted.sock.close()
        desk.types(b"hello")
        assert joined._person_typed() is None, "its end is about to be read"
        desk.hangs_up()
        assert joined._person_typed() == (0, "")


def test_the_terminal_is_restored_and_its_cursor_left_in_place_for_who_comes_back(
    scripted: Scripted, desk: Desk
) -> None:
    with At(scripted, desk) as joined:
        joined._hear(wire.ProgramOutput(b"\x1b[?2004h"))
        desk.written()
        joined.restore()
        unset = joined.modes.unset().decode()
        assert "\x1b[?2004l" in unset and desk.written() == f"{unset}\r\n"
        joined.command = "?"
        joined.restore()
        assert desk.written() == unset
    with At(scripted, desk, bar=True) as joined:
        joined.restore()
        assert desk.written().count("\x1b[10;1H\x1b[2K") == 2


def test_it_runs_until_the_end_and_keeps_the_bar_drawn(scripted: Scripted, desk: Desk) -> None:
    body = {"output": {"start": 0}, "modes": {"set": ""}}
    client = scripted.client(wire.DetailReply(json.dumps(body).encode()), wire.HelloReply(3, 0, 0, 0, 80, 24))
    with client, ThreadPoolExecutor(1) as pool:
        joined = Joined(client, desk.signals, "x", AttachOptions(bar=True))
        running = pool.submit(joined.run)
        until(lambda: wire.Subscribe() in scripted.got())
        desk.types(b"k")
        until(lambda: scripted.got() == [wire.Input(b"k")])
        desk.signalled(signal.SIGWINCH)
        until(lambda: scripted.got() == [wire.Resize(40, 9)])
        scripted.says(wire.ProgramOutput(b"words"))
        shown: list[str] = []
        until(lambda: shown.append(desk.written()) or "words" in "".join(shown) and "[treadle] x" in "".join(shown))
        scripted.says(wire.Exit(5))
        assert running.result(50) == (5, None)


def test_attaching_to_one_that_is_gone_gives_its_recorded_code(desk: Desk, tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    Path(place.exit).write_text(json.dumps({"format": 1, "id": "x", "code": 4}))
    assert Visit(place, AttachOptions(), desk.signals).once() == (4, None)


def test_without_a_terminal_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a terminal") as refused:
        attach_here(Place(str(tmp_path), "x"), AttachOptions())
    assert refused.value.hint == "`treadle tail -f x` shows it without one"
