"""`treadle wait`: for an end or a state, of one or of several."""

import json
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal.shells import Here, Shell, reporting
from tests.terminal.support import connected, until
from tests.waiting import stop
from treadle.cli.terminal import input


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


@pytest.mark.slow
def test_wait_idle_tells_what_became_of_the_turn(shell: Shell) -> None:
    for name, last, code in (("done", "done", 0), ("failed", "error", 5), ("asks", "blocked:kind=question", 3)):
        program = reporting("idle", "working").removesuffix("cat") + f"sleep 0.2; {reporting(last)}"
        shell("run", "--detach", "--id", name, "--", "sh", "-c", program)
        shell("wait", name, "--state", "idle", "--timeout", "50")
        shell("send", name, "go", "--wait-idle", "--timeout", "50", code=code)


@pytest.mark.slow
def test_of_several_the_first_that_gets_there_is_named(shell: Shell) -> None:
    shell("run", "--detach", "--id", "busy", "--", "sh", "-c", reporting("working"))
    shell("run", "--detach", "--id", "asks", "--", "sh", "-c", reporting("working", "blocked:kind=permission"))
    shell("wait", "asks", "--state", "working", "--timeout", "50")
    shell("send", "asks", "\\n")
    assert shell("wait", "--any", "busy", "asks", "--timeout", "50") == "asks permission\n"
    shell("wait", "busy", "asks", "--state", "idle", code=2)


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ({"name": "idle"}, {"idle"}),
        ({"name": "idle", "done": True}, {"idle", "done"}),
        ({"name": "permission"}, {"permission", "waiting"}),
        ({"name": "question"}, {"question", "waiting"}),
        ({"name": "thinking"}, {"thinking", "working"}),
        ({"name": "active"}, {"active", "working"}),
        ({"name": "unknown", "hint": "idle"}, {"unknown"}),
        ({"name": "error"}, {"error"}),
    ],
)
def test_a_state_has_its_own_name_and_general_ones(state: dict[str, Any], names: set[str]) -> None:
    assert {name for name in input.STATES if input.matches(state, (name,))} == names
    assert input.matches(state, input.STATES)


@pytest.mark.parametrize(
    ("state", "code", "out", "err"),
    [
        ({"name": "permission", "message": "rm"}, 3, "permission: rm\n", ""),
        ({"name": "question", "message": None}, 3, "question: \n", ""),
        ({"name": "error", "message": "401"}, 5, "error: 401\n", ""),
        ({"name": "unknown", "hint": "idle"}, 3, "", "it cannot be told whether x is idle"),
        ({"name": "unknown", "hint": "active"}, None, "", ""),
        ({"name": "idle"}, None, "", ""),
        ({"name": "thinking", "hint": "idle"}, None, "", ""),
    ],
)
def test_what_will_not_become_idle_by_itself_has_an_exit_code(
    state: dict[str, Any], code: int | None, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert input.instead_of_idle("x", state) == code
    said = capsys.readouterr()
    assert said.out == out and err in said.err and bool(err) == bool(said.err)


REPORT = r"printf '\033]7501;state=%s:app=x\007' "


def test_one_that_is_there_already_needs_no_time_and_another_does_not_come(here: Here) -> None:
    here.stage.start("sh", "-c", f"{REPORT} blocked:kind=question; cat", id="asks")
    here.stage.start("sh", "-c", "echo x; cat", id="plain")
    assert here("wait", "asks", "--state", "waiting", "--timeout", "50") == ""
    assert here("wait", "asks", "--state", "dead,question") == ""
    assert here("wait", "--any", "plain", "asks", "--timeout", "50") == "asks question\n"
    assert here("wait", "--any", "plain", "asks", "--state", "unknown,starting") == "plain " + here(
        "wait", "--any", "plain", "--state", "unknown,starting"
    ).removeprefix("plain ")
    code, out, err = here.run("wait", "plain", "asks", "--any", "--state", "error", "--timeout", "0.3")
    assert (code, out) == (124, "") and "within 0.3 s" in err
    with connected(here.place("plain")) as client:
        until(lambda: client.detail()["state"].get("hint") == "idle")
    assert here("wait", "plain", "--state", "idle", "--anyway", "--timeout", "50") == ""
    code, out, err = here.run("wait", "plain", "--state", "idle", "--timeout", "50")
    assert (code, out) == (3, "") and "--anyway takes silence for idle" in err


def test_one_that_has_ended_is_dead_and_gets_nowhere_else(here: Here) -> None:
    here.ended("x", code=6)
    assert here("wait", "x", "--state", "dead") == "" and here("wait", "--any", "x") == "x dead\n"
    assert here.run("wait", "x", "--state", "idle") == (1, "", "treadle: x has ended\n")
    assert here("wait", "x", "--exit", code=6) == ""
    here.ended("x", code=None)
    assert here("wait", "x", "--exit", code=1) == ""
    Path(here.place("x").exit).unlink()
    Path(here.place("x").pid).touch()
    assert here.run("wait", "x", "--exit")[0] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x", "y", "--state", "idle"), "expected one id; for several say --any"),
        (("--any",), "expected ids"),
        (("x",), "--state is needed"),
        (("x", "--state", "idle,sleepy"), "unknown state 'sleepy'; it is one of idle, working"),
        (("x", "--state", "idle", "--timeout", "soon"), "--timeout must be a number"),
    ],
)
def test_what_is_typed_wrongly_is_refused(here: Here, words: tuple[str, ...], says: str) -> None:
    for name in ("x", "y"):
        here.ended(name)
    code, out, err = here.run("wait", *words)
    assert (code, out) == (2, "") and says in err
