"""`treadle kill`: everything that a terminal has started ends."""

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Shell
from tests.conftest import need
from tests.terminal.support import alive, until
from tests.waiting import stop
from treadle.io import files
from treadle.io.process import table
from treadle.terminal.places import Place


def test_kill_does_without_a_supervisor_that_is_stuck(shell: Shell) -> None:
    shell("run", "--detach", "--id", "stuck", "--", "sleep", "60")
    supervisor, child = shell.place("stuck").pids()
    stop(supervisor)
    try:
        assert shell("kill", "stuck", "--grace", "1") == f"stuck ended\n  SIGTERM  {child} sleep\n"
        assert not alive(child)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    shell("wait", "stuck", "--exit", code=143)


def test_kill_ends_what_is_left_of_one_whose_supervisor_and_reaper_were_killed_at_once(shell: Shell) -> None:
    """It is known by a variable that it was started with. One without it could not be seen, so exit code 1."""
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "setsid sleep 61 & trap '' HUP TERM; sleep 62")
    supervisor, _ = shell.place("x").pids()
    until(lambda: sum(found.name == "sleep" for found in table.descendants(supervisor)) == 2)
    below = table.descendants(supervisor)
    (reaper,) = [found.pid for found in below if found.name == "treadle-reaper"]
    sleeps = [found.pid for found in below if found.name == "sleep"]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (supervisor, reaper):
            os.kill(pid, number)
    until(lambda: not alive(supervisor) and not alive(reaper))
    done = shell.run("kill", "x", "--grace", "0.2")
    assert done.returncode == 1 and "all that watched it was killed" in done.stderr
    assert all(f"{pid} sleep" in done.stdout for pid in sleeps)
    until(lambda: not any(map(alive, sleeps)))


def test_kill_names_each_that_ended_and_how(here: Here) -> None:
    assert json.loads(here("kill", "--all", "--json")) == {}
    for name in ("a", "b"):
        here.stage.start("sleep", "60", id=name)
    child = here.place("a").pids()[1]
    assert here("kill", "a") == f"a ended with code 143\n  SIGTERM  {child} sleep\n"
    child = here.place("b").pids()[1]
    report = json.loads(here("kill", "b", "--json"))
    assert report["ended"] == [{"pid": child, "name": "sleep", "by": "SIGTERM"}]
    assert (report["code"], report["survivors"], report["unseen"]) == (143, [], False)
    for name in ("c", "d", "e", "f"):
        here.stage.start("sleep", "60", id=name)
    assert set(json.loads(here("kill", "c", "d", "--json"))) == {"c", "d"}
    assert list(json.loads(here("kill", "--all", "--json"))) == ["e", "f"], "those that have ended are not ended again"


def test_one_that_has_ended_cannot_be_ended_again(here: Here) -> None:
    Path(here.ended("gone").pid).touch()
    code, out, err = here.run("kill", "gone")
    assert (code, out) == (1, "") and "session gone has ended\n  `treadle wait gone --exit` has its code" in err


@contextmanager
def foreign(here: Here, name: str, pids: str) -> Iterator[Place]:
    """A supervisor that is not one of ours, and hangs up on everyone."""
    place = here.place(name)
    with socket.socket(socket.AF_UNIX) as listener, files.locked(place.pid):
        Path(place.pid).write_text(pids)
        listener.bind(place.sock)
        listener.listen()

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    with listener.accept()[0] as sock:
                        sock.sendall(b"\0")

        thread = threading.Thread(target=hang_up)
        thread.start()
        try:
            yield place
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(50)
    os.unlink(place.sock)
    os.unlink(place.pid)


def test_of_a_foreign_supervisor_it_is_not_known_what_its_program_has_left(here: Here) -> None:
    program = subprocess.Popen(["sleep", "60"])
    try:
        with foreign(here, "f", f"0\n{program.pid}"):
            here.ended("f", code=9)
            code, out, err = here.run("kill", "f")
    finally:
        program.kill()
    assert program.wait(50) == -signal.SIGTERM
    assert (code, out) == (1, f"f ended with code 9\n  SIGTERM  {program.pid} sleep\n")
    assert err == "  unknown whether f left processes behind: its supervisor adopts nothing\n"
    with foreign(here, "f", "0\n1"):
        code, out, err = here.run("kill", "f")
    assert (code, out) == (1, "") and f"{here.place('f').pid} does not name its program" in err


def start(shell: Shell, script: str) -> tuple[int, int]:
    """The pids of the supervisor and the reaper of a program that says when it is ready."""
    need("bwrap")
    shell("run", "--detach", "--id", "x", "--own-pids", "--", "sh", "-c", script)
    until(lambda: "ready" in shell.written("x"))
    supervisor, _ = shell.place("x").pids()
    (reaper,) = [found.pid for found in table.descendants(supervisor) if found.name == "treadle-reaper"]
    return supervisor, reaper


def test_without_bubblewrap_nothing_is_started(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = shell.run("run", "--detach", "--own-pids", "--", "/bin/sleep", "60")
    assert done.returncode == 1 and "bwrap" in done.stderr
    assert not shell.directory.exists() or not any(shell.directory.iterdir())
