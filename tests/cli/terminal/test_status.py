"""`treadle status`: what is known of one terminal."""

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
from tests.terminal.support import connected, until
from tests.waiting import stop
from treadle.io import files
from treadle.wire.terminal import frames as wire


def test_a_mistyped_id_is_corrected(shell: Shell) -> None:
    shell("run", "--detach", "--id", "builder", "--", "cat")
    assert "did you mean builder?" in shell.run("status", "bulider").stderr


@pytest.mark.slow
def test_a_terminal_whose_supervisor_does_not_answer_is_unknown_and_not_what_it_was(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--env", "PS1=$ ", "--", "sh", "-i")
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    supervisor, pid = shell.place("x").pids()
    stop(supervisor)
    try:
        with ThreadPoolExecutor(2) as pool:  # each waits ten seconds
            told, known = pool.submit(shell, "status", "x"), pool.submit(shell, "status", "x", "--json")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert f"pid:     {pid}\nalive:   true\nstate:   unknown (" in told.result()
    assert json.loads(known.result())["state"]["name"] == "unknown"


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


def test_one_that_has_ended_gives_its_record(here: Here) -> None:
    here.ended("x", code=3)
    assert here("status", "x") == "session: x\nalive:   false\nstate:   dead (code 3)\n"
    here.ended("x", code=None, reason="it was killed")
    assert here("status", "x").endswith("state:   dead (code None: it was killed)\n")
    found = json.loads(here("status", "x", "--json"))
    assert found == {"format": 1, "id": "x", "code": None, "reason": "it was killed", "alive": False}
    assert here.run("status")[0] == here.run("status", "x", "x")[0] == 2


def test_one_that_runs_says_what_it_does_asks_and_has_queued(here: Here) -> None:
    report = r"printf '\033]7501;state=%s\007' "
    place = here.stage.start("sh", "-c", f"{report}blocked:kind=permission:msg=cm0gLXJm; read a; {report}working; cat")
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "permission")
        lines = here("status", place.id).splitlines()
        assert lines[:2] == [f"session: {place.id}", f"pid:     {place.pids()[1]}"]
        assert lines[2].removeprefix("idle_ms: ").isdigit() and lines[3] == "alive:   true"
        assert lines[4].startswith("state:   permission (") and lines[4].endswith("ms)")
        assert lines[5:] == ["asks:    rm -rf"]
        found = json.loads(here("status", place.id, "--json"))
        assert (found["id"], found["alive"], found["state"]["name"]) == (place.id, True, "permission")
        client.input(b"\n")
        until(lambda: client.detail()["state"]["name"] == "thinking")
        for text in (b"first\nmore", b"", b"w" * 100):
            client.prompt(text, wire.WHEN_IDLE)
    lines = here("status", place.id).splitlines()
    assert lines[4].startswith("state:   thinking (")
    assert lines[5:] == [f"queued until it is idle: {n}  {text}" for n, text in enumerate(("first", "", "w" * 80), 1)]


def test_of_one_that_nobody_recognises_the_rhythm_is_told(here: Here) -> None:
    place = here.stage.start("sh", "-c", "echo x; exec cat")
    with connected(place) as client:
        until(lambda: client.detail()["state"].get("hint"))
    state = here("status", place.id).splitlines()[4]
    assert state.startswith("state:   unknown (") and state.endswith(" by its rhythm)")
