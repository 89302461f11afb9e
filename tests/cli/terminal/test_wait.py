"""`treadle wait`: for an end or a state, of one or of several."""

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell, reporting
from tests.terminal.support import until
from tests.waiting import stop


def test_wait_gives_the_programs_code_while_it_runs_and_long_after(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "0", "--", "sh", "-c", "sleep 0.3; exit 9")
    shell("wait", "x", "--exit", code=9)
    until(lambda: not os.path.exists(shell.place("x").pid))
    shell("wait", "x", "--exit", code=9)
    record = json.loads(shell("status", "x", "--json"))
    assert (record["code"], record["alive"]) == (9, False)


@pytest.mark.parametrize("what", [("--exit",), ("--state", "idle")])
def test_a_wait_ends_at_its_timeout_while_the_supervisor_is_stopped(shell: Shell, what: tuple[str, ...]) -> None:
    shell("run", "--detach", "--id", "x", "--", "cat")
    supervisor = shell.place("x").pids()[0]
    stop(supervisor)
    try:
        done = shell.run("wait", "x", *what, "--timeout", "1")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert done.returncode == 124 and "not within 1 s" in done.stderr, done


def test_wait_understands_a_supervisor_that_has_only_the_protocol(shell: Shell) -> None:
    shell.directory.mkdir(parents=True, mode=0o700)
    Path(shell.place("x").pid).write_text(f"{os.getpid()}\n")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(shell.place("x").sock)
        listener.listen()

        def supervise() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b"\0")
                heard = b""
                while not heard.endswith(b"\x02\0\0\0\0"):
                    heard += sock.recv(100)
                sock.sendall(b"\x81\0\0\0\x02hi\x83\0\0\0\x04\0\0\0\x07")

        thread = threading.Thread(target=supervise, daemon=True)
        thread.start()
        shell("wait", "x", "--exit", code=7)
        thread.join(50)
    Path(shell.place("x").pid).unlink()  # it is ours, and not to be ended


def test_wait_is_124_when_the_time_is_up(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sleep", "60")
    done = shell.run("wait", "x", "--exit", "--timeout", "0.2")
    assert done.returncode == 124 and "0.2 s" in done.stderr
    shell("wait", "x", "--state", "thinking", "--timeout", "0.2", code=124)


def test_a_turn_that_fails_has_a_state_and_an_exit_code_of_its_own(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", reporting("idle", "working", "error:msg=NDAx"))
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    shell("send", "x", "try", "--enter")
    shell("wait", "x", "--state", "working", "--timeout", "50")
    assert "--when-idle" in shell.run("send", "x", "more", "--enter").stderr
    shell("send", "x", "more", "--enter", "--anyway")
    shell("wait", "x", "--state", "error", "--timeout", "50")
    assert shell("wait", "x", "--state", "idle", "--timeout", "50", code=5) == "error: 401\n"
    assert "error" in shell("ls") and "401" in shell("ls")


def test_wait_idle_tells_what_became_of_the_turn(shell: Shell) -> None:
    for name, last, code in (("done", "done", 0), ("failed", "error", 5), ("asks", "blocked:kind=question", 3)):
        program = reporting("idle", "working").removesuffix("cat") + f"sleep 0.2; {reporting(last)}"
        shell("run", "--detach", "--id", name, "--", "sh", "-c", program)
        shell("wait", name, "--state", "idle", "--timeout", "50")
        shell("send", name, "go", "--wait-idle", "--timeout", "50", code=code)


def test_of_several_the_first_that_gets_there_is_named(shell: Shell) -> None:
    shell("run", "--detach", "--id", "busy", "--", "sh", "-c", reporting("working"))
    shell("run", "--detach", "--id", "asks", "--", "sh", "-c", reporting("working", "blocked:kind=permission"))
    shell("wait", "asks", "--state", "working", "--timeout", "50")
    shell("send", "asks", "\\n")
    assert shell("wait", "--any", "busy", "asks", "--timeout", "50") == "asks permission\n"
    shell("wait", "busy", "asks", "--state", "idle", code=2)
