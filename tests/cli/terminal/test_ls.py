"""`treadle ls`: which terminals there are, and what it puts right when asked."""

import json
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal.shells import Here, Shell
from tests.installed import started
from tests.terminal.support import alive, until
from tests.waiting import stop
from treadle.cli.terminal import status
from treadle.terminal.places import Place

ROW = {"id": "x", "alive": True, "state": "idle", "state_ms": 61_000, "pid": 7, "idle_ms": 5}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"alive": False, "code": 3}, "dead        code 3"),
        ({"alive": False, "code": None, "reason": "gone"}, "dead        code None, gone"),
        ({**ROW, "idle_ms": None, "reason": "why"}, "idle        pid 7, why"),
        (ROW, "idle            1m  pid 7"),
        (
            {**ROW, "workdir": "~/w", "command": ["a", "b"], "message": "asks", "last_line": "said"},
            "idle            1m  pid 7  ~/w  a b  asks",
        ),
        ({**ROW, "last_line": "said", "prompts": [{"stage": "typed"}]}, "idle            1m  pid 7  said"),
        (
            {**ROW, "prompts": [{"stage": "queued"}, {"stage": "typed"}, {"stage": "queued"}]},
            "idle            1m  pid 7  2 queued",
        ),
        ({**ROW, "command": ["c" * 40]}, f"idle            1m  pid 7  {'c' * 40}"),
        ({**ROW, "command": ["c" * 41]}, f"idle            1m  pid 7  {'c' * 39}…"),
        ({**ROW, "message": "m" * 60}, f"idle            1m  pid 7  {'m' * 60}"),
        ({**ROW, "message": "m" * 61}, f"idle            1m  pid 7  {'m' * 59}…"),
    ],
)
def test_a_row_in_words(row: dict[str, Any], words: str) -> None:
    assert status.words(row) == words


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (3_599_999, "59m"), (3_600_000, "1h"), (86_400_000, "1d")],
)
def test_a_span_is_in_its_largest_unit(milliseconds: int, words: str) -> None:
    assert status.span(milliseconds) == words


def test_the_home_directory_is_written_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    shown = [status.shortened(path) for path in ("/home/ann", "/home/ann/w", "/home/anne", "/tmp", "")]
    assert shown == ["~", "~/w", "/home/anne", "/tmp", ""]


def test_those_that_have_ended_are_in_the_list_only_when_asked(here: Here) -> None:
    os.rmdir(here.directory)
    assert here("ls") == f"No sessions yet: there is no {here.directory}\n"
    here.directory.mkdir()
    assert here("ls") == here("ls", "--all") == "No active sessions\n" and here("ls", "--json") == "[]\n"
    here.ended("a", code=3, reason="why")
    here.ended("longer")
    assert here("ls") == "No active sessions\n"
    assert here("ls", "--all") == "Sessions:\n  a       dead        code 3, why\n  longer  dead        code 0\n"
    assert [row["id"] for row in json.loads(here("ls", "--all", "--json"))] == ["a", "longer"]
    assert here.run("ls", "x")[0] == 2


@pytest.mark.parametrize("tty", [False, True])
def test_a_watched_list_is_drawn_anew_when_it_changes_and_always_on_a_terminal(
    here: Here, tty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([None, lambda: here.ended("a"), None])

    def sleep(seconds: float) -> None:
        act = next(looks, KeyboardInterrupt)
        if act is KeyboardInterrupt:
            raise KeyboardInterrupt
        if act:
            act()

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty)
    code, out, _ = here.run("ls", "--watch", "--all")
    none, one = "No active sessions\n", "Sessions:\n  a  dead        code 0\n"
    clear = "\x1b[H\x1b[J"
    assert code == 130
    assert out == (f"{clear}{none}{clear}{none}{clear}{one}{clear}{one}" if tty else none + one)


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


def test_a_removed_directory_is_made_anew_at_once_when_the_supervisor_is_signalled(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo here; cat")
    supervisor, child = shell.place("x").pids()
    shutil.rmtree(shell.directory)
    os.kill(supervisor, signal.SIGUSR1)
    until(lambda: shell.place("x").pids() == (supervisor, child) and os.path.exists(shell.place("x").sock))
    assert "is already running" in shell.run("run", "--detach", "--id", "x", "--", "cat").stderr
    assert shell("ls").startswith("Active sessions:\n  x  ")
    assert "x ended" in shell("kill", "x")
    assert not alive(supervisor) or until(lambda: not alive(supervisor))


def test_a_removed_directory_is_made_anew_when_a_person_asks_for_it(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "cat")
    shell("run", "--detach", "--id", "y", "--socket-dir", "elsewhere", "--", "cat")
    there = Place(str(shell.cwd / "elsewhere"), "y")
    supervisors = (shell.place("x").pids()[0], there.pids()[0])
    for supervisor in supervisors:
        stop(supervisor)  # it also looks by itself, every three seconds
    shutil.rmtree(shell.directory)
    os.unlink(there.sock)
    done = repaired(shell, supervisors[0])
    assert "x.sock: made again" in done and "y.sock" not in done
    assert shell("ls").startswith("Active sessions:\n  x  ")
    assert "y.sock: made again" in repaired(shell, supervisors[1], "--socket-dir", "elsewhere")
    assert os.path.exists(there.sock)
    shell("kill", "y", "--socket-dir", "elsewhere", "--grace", "0")


def repaired(shell: Shell, supervisor: int, *where: str) -> str:
    """What `ls --repair` says while a supervisor is stopped until it was signalled."""
    listing = started("ls", "--repair", *where, cwd=shell.cwd)
    until(lambda: pending(supervisor) >> (signal.SIGUSR1 - 1) & 1)
    os.kill(supervisor, signal.SIGCONT)
    return listing.communicate(timeout=60)[1]


def pending(pid: int) -> int:
    """The signals that a process has not taken yet."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("ShdPnd:")), 16)


def test_a_removed_socket_is_made_anew_and_nobody_takes_the_terminal_for_dead(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo here; cat")
    os.unlink(shell.place("x").sock)
    listed = shell("ls")
    assert listed.startswith("Active sessions:\n  x  ") and "dead" not in listed
    assert "is already running" in shell.run("run", "--detach", "--id", "x", "--", "cat").stderr
    assert "alive:   true" in shell("status", "x")
    assert "x ended" in shell("kill", "x")


def test_a_socket_that_a_crash_has_left_is_named_and_removed_when_asked(shell: Shell) -> None:
    shell("run", "--detach", "--id", "alive", "--", "cat")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(shell.place("gone").sock)
    assert shell.place("gone").sock in shell.run("ls").stderr and os.path.exists(shell.place("gone").sock)
    assert "removed" in shell.run("ls", "--repair").stderr
    assert not os.path.exists(shell.place("gone").sock) and os.path.exists(shell.place("alive").sock)
    done = shell.run("ls")
    assert done.stderr == "" and "alive" in done.stdout
