"""The command line in copies of a process that has loaded it, which is how the quick tier runs `treadle`.

A start of the installed program takes 0.2 s of CPU, most of it to load modules, and the quick tests start it thousands
of times. Here one process for each pytest loads what a turn needs and forks for each command. The copy takes over the
arguments, environment, directory and standard streams of the command, and runs the same `main`. The slow tier and
tests/e2e start the installed program itself.
"""

import atexit
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

LOADED = (
    "asyncio",
    "click",
    "treadle.cli.root",
    "treadle.cli.oneshot",
    "treadle.doors.oneshot.run",
    "treadle.agent.session",
)
AT_START = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_")
"""How the names of variables begin that a program reads before its `main`."""
FDS = 4


@cache
def parent() -> socket.socket:
    """The socket of the process that is forked. It ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {name: value for name, value in os.environ.items() if name != "TREADLE_HOME"}
    top = str(Path(__file__).parent.parent)
    command = [sys.executable, "-m", "tests.forked", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=top, env=env)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def fits(env: dict[str, str]) -> bool:
    """Whether a copy is what a new program with these variables would be."""
    changed = set(env.items()) ^ set(os.environ.items())
    return not any(name.startswith(AT_START) for name, _ in changed)


def run(
    arguments: list[str], env: dict[str, str], cwd: str, stdin: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `treadle` with these arguments to its end."""
    inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
    if stdin is None:
        os.close(inputs[0])
        inputs = (os.open(os.devnull, os.O_RDONLY), inputs[1])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    given = [inputs[0], outputs[1], errors[1], theirs.fileno()]
    socket.send_fds(parent(), [b"?"], given)
    for number in given[:3]:
        os.close(number)
    theirs.close()
    with ours, ours.makefile("rw") as channel:
        channel.write(json.dumps({"arguments": arguments, "env": env, "cwd": cwd}) + "\n")
        channel.flush()
        pid = int(channel.readline())
        try:
            texts = _exchange(inputs[1], [outputs[0], errors[0]], (stdin or "").encode(), time.monotonic() + timeout)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, timeout) from None
        finally:
            for number in (outputs[0], errors[0]):
                os.close(number)
        code = os.waitstatus_to_exitcode(int(channel.readline()))
    stdout, stderr = (text.decode().replace("\r\n", "\n") for text in texts)
    return subprocess.CompletedProcess(["treadle", *arguments], code, stdout, stderr)


def _exchange(to: int, come: list[int], data: bytes, deadline: float) -> list[bytes]:
    """Write what stdin has and read both outputs, until all ends are closed."""
    found = {number: bytearray() for number in come}
    os.set_blocking(to, False)
    with selectors.DefaultSelector() as selector:
        selector.register(to, selectors.EVENT_WRITE)
        for number in come:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            if not (ready := selector.select(max(0.0, deadline - time.monotonic()))):
                raise TimeoutError
            for key, _ in ready:
                if key.fd == to:
                    data = _written(to, data)
                    if not data:
                        selector.unregister(to)
                        os.close(to)
                elif chunk := os.read(key.fd, 65536):
                    found[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
    return [bytes(found[number]) for number in come]


def _written(to: int, data: bytes) -> bytes:
    try:
        return data[os.write(to, data) :] if data else b""
    except BrokenPipeError:
        return b""


# In the process that is forked...


def serve(requests: socket.socket) -> None:
    """Fork for each request. Returns in the copy, which is then that command."""
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    children: dict[int, socket.socket] = {}
    wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == wake:
                    os.read(wake, 4096)
                    _report(children)
                    continue
                told, numbers, _, _ = socket.recv_fds(requests, 1, FDS)
                if not told:
                    os._exit(0)
                channel = socket.socket(fileno=numbers.pop())
                if not (pid := os.fork()):
                    break
                children[pid] = channel
                channel.sendall(f"{pid}\n".encode())
                for number in numbers:
                    os.close(number)
            else:
                continue
            break
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for other in (*children.values(), requests):
        other.close()
    for number in (wake, woken):
        os.close(number)
    _become(numbers, channel)


def _report(children: dict[int, socket.socket]) -> None:
    for pid, channel in list(children.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with channel, suppress(OSError):  # whoever asked may have given up
                children.pop(pid)
                channel.sendall(f"{status}\n".encode())


def _become(streams: list[int], channel: socket.socket) -> None:
    """Be the command that was asked for."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with channel.makefile("r") as file:
        asked = json.loads(file.readline())
    channel.close()
    # Those that Python made are for what the parent had there: a file can seek, a pipe cannot.
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    sys.argv[:] = [str(Path(sys.executable).with_name("treadle")), *asked["arguments"]]
    sys.path[:] = [path for path in sys.path if path]


def main() -> NoReturn:
    serve(socket.socket(fileno=int(sys.argv[1])))
    from treadle.cli import main as command

    sys.exit(command())


if __name__ == "__main__":
    main()
