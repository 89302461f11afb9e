"""The relay inside a sandbox: a local port that leads to the proxy's socket, and the command with its exit code."""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.io.sandbox import relay

RELAY = [sys.executable, "-I", "-S", relay.__file__]
FETCH = """
import os, socket, sys
host, _, port = os.environ["http_proxy"].removeprefix("http://").partition(":")
with socket.create_connection((host, int(port))) as there:
    there.sendall(b"asked")
    there.shutdown(socket.SHUT_WR)
    print(there.makefile("rb").read().decode(), port == sys.argv[1], os.environ["other"])
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """Answers every connection with what it was sent, in capitals."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    here, _ = listener.accept()
                except OSError:
                    return
                with here:
                    here.sendall(here.makefile("rb").read().upper())

        threading.Thread(target=serve, daemon=True).start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)


def run(path: str, port: int, *argv: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "http_proxy": f"http://127.0.0.1:{port}", "other": "http://127.0.0.1:1"}
    ports = f"127.0.0.1:{port}={path}"
    return subprocess.run([*RELAY, ports, *argv], env=env, capture_output=True, text=True, timeout=60)


def test_the_command_reaches_the_proxy_through_the_port(proxy: str) -> None:
    port = free_port()
    done = run(proxy, port, sys.executable, "-c", FETCH, str(port))
    assert (done.stdout, done.returncode) == ("ASKED True http://127.0.0.1:1\n", 0), done.stderr


def test_where_the_port_is_taken_the_command_is_told_of_another(proxy: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        done = run(proxy, port, sys.executable, "-c", FETCH, str(port))
    assert done.stdout == "ASKED False http://127.0.0.1:1\n", done.stderr


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("cat; exit 3", 3)])
def test_the_exit_code_is_the_commands(tmp_path: Path, command: str, code: int) -> None:
    assert run(str(tmp_path / "s"), free_port(), "sh", "-c", command).returncode == code


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run(str(tmp_path / "s"), free_port(), "no-such-program")
    assert done.returncode == 127 and done.stderr == "no-such-program: No such file or directory\n"


def test_only_the_command_holds_its_input_and_output(tmp_path: Path) -> None:
    words = [*RELAY, f"127.0.0.1:{free_port()}={tmp_path / 's'}", "sh", "-c", "exec >&-; exec cat >&2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.read() == b"" and process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0
    words[-1] = "exec <&-; exec sleep 60"
    with subprocess.Popen(words, stdin=pipe) as process:
        assert process.stdin is not None
        gone = select.poll()
        gone.register(process.stdin, select.POLLERR)
        assert gone.poll(60_000)
        process.kill()
