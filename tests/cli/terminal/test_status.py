"""`treadle ls`, `status`, `explain` and `detectors`: which terminals there are, what each does, what that rests on."""

import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Shell
from tests.terminal.recordings import load
from tests.terminal.support import connected, until
from tests.waiting import stop
from treadle.io import files, paths
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire


def test_ls_lists_the_living_and_with_all_the_dead_and_changes_nothing(shell: Shell) -> None:
    assert "No sessions yet" in shell("ls")
    shell("run", "--detach", "--id", "one", "--", "sleep", "60")
    shell("run", "--detach", "--id", "two", "--linger", "0", "--", "sh", "-c", "exit 3")
    until(lambda: not os.path.exists(shell.place("two").pid))
    (shell.directory / "three.pid").write_text("999999999\n999999998")
    (shell.directory / "notes.txt").touch()
    before = sorted(os.listdir(shell.directory))
    text = shell("ls")
    assert text.startswith("Active sessions:\n  one ") and "two" not in text
    rows = {row["id"]: row for row in json.loads(shell("ls", "--all", "--json"))}
    assert (rows["one"]["alive"], rows["two"]["code"], rows["three"]["alive"]) == (True, 3, False)
    assert "code 3" in shell("ls", "--all")
    assert sorted(os.listdir(shell.directory)) == before


def test_ls_takes_one_that_does_not_answer_for_alive(shell: Shell) -> None:
    shell("run", "--detach", "--id", "stuck", "--", "sleep", "60")
    supervisor, child = shell.place("stuck").pids()
    stop(supervisor)
    try:
        assert f"unknown     pid {child}, its supervisor does not answer" in shell("ls")
    finally:
        os.kill(supervisor, signal.SIGCONT)


def test_a_removed_socket_is_made_anew_and_nobody_takes_the_terminal_for_dead(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo here; cat")
    os.unlink(shell.place("x").sock)
    listed = shell("ls")
    assert listed.startswith("Active sessions:\n  x  ") and "dead" not in listed
    assert "is already running" in shell.run("run", "--detach", "--id", "x", "--", "cat").stderr
    assert "alive:   true" in shell("status", "x")
    assert "x ended" in shell("kill", "x")


@pytest.mark.slow
def test_a_supervisor_with_nothing_but_the_protocol_is_served_by_every_command(shell: Shell) -> None:
    place = shell.place("hm")
    shell.directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    ready, over = threading.Event(), threading.Event()

    def serve(sock: socket.socket) -> None:
        with sock, suppress(ConnectionError):  # the one who asked may have left
            sock.sendall(b"\0")
            data = b""
            while len(data) < 5 and (part := sock.recv(1000)):
                data += part
                while len(data) >= 5:
                    kind, size = data[0], int.from_bytes(data[1:5], "big")
                    data = data[5 + size :]
                    if kind == wire.STATUS:
                        sock.sendall(wire.encode(wire.StatusReply.of(os.getpid(), 7, True, wire.IDLE, 9)))
                    elif kind == wire.SUBSCRIBE:
                        sock.sendall(wire.encode(wire.ProgramOutput(b"one\r\ntwo\r\n$ ")))

    def supervise() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place.sock)
            listener.listen()
            listener.settimeout(0.2)
            ready.set()
            while not over.is_set():
                try:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
                except TimeoutError:
                    pass

    thread = threading.Thread(target=supervise)
    thread.start()
    ready.wait(50)
    with files.locked(place.pid):
        Path(place.pid).write_text(f"{os.getpid()}\n{os.getpid()}")
        try:
            with ThreadPoolExecutor(6) as pool:  # each waits two seconds for an answer that does not come
                status = pool.submit(shell, "status", "hm", "--json")
                tail = pool.submit(shell, "tail", "hm", "--strip")
                peek = pool.submit(shell, "peek", "hm")
                wait = pool.submit(shell, "wait", "hm", "--state", "idle", "--timeout", "50")
                ls = pool.submit(shell, "ls")
                send = pool.submit(shell, "send", "hm", "x", "--enter", code=3)
            assert json.loads(status.result())["state"]["name"] == "idle"
            assert tail.result() == "one\ntwo\n$ "
            assert peek.result().splitlines() == ["one", "two", "$"]
            assert "idle" in ls.result()
            wait.result()
            send.result()
            Path(place.summary).touch()  # now it is one of ours, which is too slow to say more
            assert "unknown" in shell("ls") and "idle" not in shell("ls")
        finally:
            over.set()
            thread.join(50)
    Path(place.pid).unlink()


def test_one_that_runs_says_what_it_does_asks_and_has_queued(here: Here) -> None:
    report = r"printf '\033]7501;state=%s\007' "
    place = here.stage.start("sh", "-c", f"{report}blocked:kind=permission:msg=cm0gLXJm; read a; {report}working; cat")
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "permission")
        lines = here("status", place.id).splitlines()
        assert lines[:2] == [f"session: {place.id}", f"pid:     {place.pids()[1]}"]
        assert lines[2].removeprefix("idle_ms: ").isdigit() and lines[3] == "alive:   true"
        assert lines[4].startswith("state:   permission (") and lines[4].endswith("ms)")
        assert lines[5:] == ["asks:    rm -rf", f"dialog:  {client.detail()['state']['dialog']}"]
        found = json.loads(here("status", place.id, "--json"))
        assert (found["id"], found["alive"], found["state"]["name"]) == (place.id, True, "permission")
        client.input(b"\n")
        until(lambda: client.detail()["state"]["name"] == "thinking")
        for text in (b"first\nmore", b"", b"w" * 100):
            client.prompt(text, wire.WHEN_IDLE)
    lines = here("status", place.id).splitlines()
    assert lines[4].startswith("state:   thinking (")
    assert lines[5:] == [f"queued until it is idle: {n}  {text}" for n, text in enumerate(("first", "", "w" * 80), 1)]


@pytest.fixture
def asks(here: Here, tmp_path: Path) -> Place:
    """A terminal that shows how Gemini CLI asks for a permission."""
    recording = load("gemini-perm-allow")
    at = next(moment["byte"] for moment in recording.moments if moment["truth"] == "permission")
    (tmp_path / "screen").write_bytes(recording.data[:at])
    place = here.stage.start("sh", "-c", f"cat {tmp_path}/screen; exec cat", id="g", cols=110, rows=40)
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "permission")
    return place


def test_explain_says_what_a_state_rests_on(here: Here, asks: Place) -> None:
    text = here("explain", "g")
    found = json.loads(here("explain", "g", "--json"))
    lines = text.splitlines()
    assert lines[:3] == [
        "state:    permission",
        f"because:  {found['why']['source']}: {found['why']['said']}",
        "agent:    gemini, known by sight",
    ]
    assert f"table:    {found['table']}" in lines and "box:      no input box" in lines
    seen = [sign for sign in found["signs"] if sign["seen"] is not None]
    at = lines.index("signs that are seen:")
    assert lines[at + 1 : lines.index("dialog:")] == [
        f"  {sign['state']:10} {sign['where']:8} {sign['seen']}" for sign in seen
    ]
    assert seen and len(seen) < len(found["signs"]) and "Allow execution of" in text
    assert [line for line in lines[at:] if line in ("dialog:", "status:", "last:")] == ["dialog:", "status:", "last:"]
    dialog = lines[lines.index("dialog:") + 1 : lines.index("status:")]
    assert len(dialog) == 8 and all(line.startswith("  | ") and line[4:].strip() for line in dialog)
    code, out, err = here.run("send", "g", "next", "thing", "--enter")
    assert (code, out) == (3, "") and "permission" in err


TABLE = """
name = "talker"
known_by = ['^Talker v\\d']
block = '\\* '
signs = [{ state = "working", where = "footer", pattern = 'busy' }]

[box]
first = '>(\\s|$)'
"""


@pytest.fixture
def table(shell: Shell) -> Path:
    """The table, where the installed command looks for it, and a program of that name."""
    directory = Path(os.path.dirname(paths.config_file())) / "detectors"
    directory.mkdir(parents=True)
    (directory / "talker.toml").write_text(TABLE)
    program = shell.cwd / "talker"
    program.write_text("#!/bin/sh\nstty -echo\nprintf '* hello\\n\\n> '\nexec cat\n")
    program.chmod(0o755)
    return directory / "talker.toml"


def test_an_agent_is_judged_by_its_users_table(shell: Shell, table: Path) -> None:
    shell("run", "--detach", "--id", "t", "--", "./talker")
    shell("wait", "t", "--state", "idle", "--timeout", "50")
    text = shell("explain", "t")
    assert "agent:    talker, known by command" in text and f"table:    {table}" in text
    rows = {row["agent"]: row for row in json.loads(shell("detectors", "--json"))}
    assert rows["talker"]["whose"] == "yours" and rows["claude"]["whose"] == "installed"
    assert f"talker     yours      {table}" in shell("detectors", "ls")


def test_a_table_that_cannot_be_read_is_told_and_stops_no_other(shell: Shell, table: Path) -> None:
    table.write_text(TABLE.replace("first", "frist"))
    done = shell.run("run", "--detach", "--id", "t", "--", "./talker")
    assert done.returncode == 1 and "box.frist is not known" in done.stderr
    assert "CANNOT BE READ" in shell("detectors")
    (table.parent / "gone.toml").symlink_to("nowhere")
    shell("run", "--detach", "--id", "c", "--", "sh", "-i")
    shell("wait", "c", "--state", "idle", "--timeout", "50")
    text = shell("explain", "c")
    assert "talker: " in text and "gone: " in text
