"""Programs with process ids of their own, as a person starts them: `treadle run --own-pids`."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from tests.conftest import need
from tests.terminal.support import alive, connected, until
from treadle.io.process import table


def start(shell: Shell, script: str) -> tuple[int, int]:
    """The pids of the supervisor and the reaper of a program that says when it is ready."""
    need("bwrap")
    shell("run", "--detach", "--id", "x", "--own-pids", "--", "sh", "-c", script)
    until(lambda: "ready" in shell.written("x"))
    supervisor, _ = shell.place("x").pids()
    (reaper,) = [found.pid for found in table.descendants(supervisor) if found.name == "treadle-reaper"]
    return supervisor, reaper


def test_a_daemon_that_ignores_hangups_ends_with_the_supervisor_and_the_reaper_killed_at_once(shell: Shell) -> None:
    daemon = "trap '' HUP TERM; echo ready; exec sleep 61"
    supervisor, reaper = start(shell, f'trap "" HUP TERM; setsid -f sh -c "{daemon}"; cat; sleep 62')
    until(lambda: any(found.name == "sleep" for found in table.descendants(reaper)))
    below = [found.pid for found in table.descendants(reaper)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (supervisor, reaper):
            os.kill(pid, number)
    until(lambda: not any(map(alive, (supervisor, reaper, *below))))


def test_ctrl_c_is_for_the_program_and_so_is_the_request_to_end(shell: Shell) -> None:
    start(shell, "trap 'echo stopped' INT; trap 'exit 7' TERM; echo ready; while :; do read line; done")
    shell("send", "x", "\\x03")
    until(lambda: "stopped" in shell.written("x"))
    with connected(shell.place("x")) as client:
        client.kill()
    shell("wait", "x", "--exit", "--timeout", "50", code=7)


def test_a_program_that_does_not_exist_is_reported_as_in_a_shell(shell: Shell) -> None:
    need("bwrap")
    shell("run", "--detach", "--id", "x", "--own-pids", "--", "no-such-program")
    shell("wait", "x", "--exit", "--timeout", "50", code=127)
    assert "no-such-program" in shell.written("x")


def test_without_bubblewrap_nothing_is_started(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = shell.run("run", "--detach", "--own-pids", "--", "/bin/sleep", "60")
    assert done.returncode == 1 and "bwrap" in done.stderr
    assert not shell.directory.exists() or not any(shell.directory.iterdir())
