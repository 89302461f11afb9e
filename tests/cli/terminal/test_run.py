"""`treadle run` and `resize`: what the program is started with."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Shell
from tests.imports import loaded_by
from tests.installed import TREADLE
from tests.terminal.support import until


def test_options_reach_the_program(shell: Shell, tmp_path: Path) -> None:
    shell(
        *("run", "--detach", "--id", "x", "--env", "A=1 2", "--env=B=", "--workdir", str(tmp_path), "--term", "vt100"),
        *("--cols", "91", "--rows", "17", "--session-env-var", "SID", "--", "sh", "-c"),
        'echo "$A|$B|$PWD|$TERM|$SID|$(stty size)"',
    )
    assert shell("wait", "x", "--exit") == ""
    assert shell("tail", "x").strip() == f"1 2||{tmp_path}|vt100|x|17 91"


def test_in_the_foreground_it_is_the_service_and_says_when_it_is_ready(shell: Shell, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(50)
        command = [
            TREADLE,
            "run",
            "--foreground",
            "--id",
            "svc",
            "--linger",
            "0",
            "--",
            "sh",
            "-c",
            "trap 'exit 3' TERM; echo $NOTIFY_SOCKET; while :; do sleep 0.05; done",
        ]
        env = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        service = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
        assert f"READY=1\nMAINPID={service.pid}" in notify.recv(1000).decode()
        until(lambda: shell("tail", "svc") == "\n")
        service.send_signal(signal.SIGTERM)
        assert service.wait(50) == 3
    assert not os.path.exists(shell.place("svc").pid)


def test_the_configuration_file_of_the_protocol_is_read(shell: Shell, tmp_path: Path, state_home: Path) -> None:
    directory = state_home / ".config" / "heimdall"
    directory.mkdir(parents=True)
    (directory / "heimdall.toml").write_text(
        f'socket_dir = "{shell.directory}"\nsession_env_var = "SID"\n[classifier.claude]\nidle_threshold_ms = 50\n'
        '[[env]]\nname = "EXTRA"\nvalue = "from file"\n'
    )
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo $SID $EXTRA; cat")
    until(lambda: "x from file" in shell.written("x"))
    shell("run", "--detach", "--id", "y", "--env", "EXTRA=given", "--", "sh", "-c", "echo $EXTRA; cat")
    until(lambda: "given" in shell.written("y"))


def test_a_configuration_that_came_with_a_repository_can_do_no_harm(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "heimdall.toml").write_text(
        'scrollback_bytes = 100\n[[env]]\nname = "LD_PRELOAD"\nvalue = "/evil.so"\n'
    )
    done = shell.run("run", "--detach", "--id", "x", "--", "sh", "-c", 'echo "<$LD_PRELOAD>"; cat')
    assert "env is ignored" in done.stderr
    until(lambda: "<>" in shell.written("x"))
    (tmp_path / "heimdall.toml").write_text('classifier = "psychic"\n')
    done = shell.run("run", "--detach", "--", "true")
    assert done.returncode == 1 and "psychic" in done.stderr
    assert "alive:   true" in shell("status", "x")  # which needs nothing from it


def test_detached_sessions_hold_nothing_of_the_launcher_open(shell: Shell) -> None:
    command = f"{TREADLE} run --detach --id x -- sleep 60 | cat"  # cat ends when no one has its input open any more
    subprocess.run(command, shell=True, check=True, timeout=50, capture_output=True)


def test_the_configuration_may_be_named_before_the_command(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'socket_dir = "{tmp_path}/elsewhere"\nsession_env_var = "SID"\n')
    shell("--config", "c.toml", "run", "--id", "x", "--detach", "--", "sh", "-c", "echo =$SID=; cat")
    until(lambda: "=x=" in shell("--config", "c.toml", "tail", "x"))
    assert (tmp_path / "elsewhere" / "x.pid").exists()
    shell("--config", "c.toml", "kill", "x", "--grace", "0")


def test_where_there_is_no_terminal_to_attach_it_is_started_and_named(here: Here) -> None:
    name = here("run", "--", "sleep", "60").strip()
    assert "alive:   true" in here("status", name)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--detach", "--cols", "1.5", "cat"), 2, "--cols must be a whole number, not '1.5'"),
        (("--detach", "--env", "=x", "cat"), 2, "--env needs NAME=VALUE, not '=x'"),
        (("--detach", "--env", "x", "cat"), 2, "--env needs NAME=VALUE, not 'x'"),
        (("--detach", "--id", "../x", "cat"), 1, "cannot be the id"),
        (("--foreground", "--worktree", "cat"), 2, "--worktree starts it in the background"),
        (("--detach", "--worktree", "--workdir", "/", "cat"), 1, "not in a git repository"),
    ],
)
def test_what_cannot_be_started_is_said(here: Here, words: tuple[str, ...], code: int, says: str) -> None:
    found, out, err = here.run("run", *words)
    assert (found, out) == (code, "") and says in err
    assert list(here.directory.iterdir()) == []


def test_the_small_commands_import_nothing_heavy(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sleep", "60")
    heavy = {"msgspec", "asyncio", "psutil", "tomllib", "click", "typing", "http"}
    if sys.version_info < (3, 14):  # from then on argparse itself loads them, for its colours
        heavy |= {"dataclasses", "inspect"}
    for arguments in (["status", "x"], ["send", "x", "hi"], ["ls"], ["run", "--detach", "--id", "y", "--", "true"]):
        _, loaded = loaded_by(*arguments)
        assert "treadle.cli" in loaded and not heavy & loaded, arguments
