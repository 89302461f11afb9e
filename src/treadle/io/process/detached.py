"""Programs that outlive the process that started them, each under a keeper of its own.

    pid = detach([sys.executable, "-P", "-m", "treadle.agent.detached_runner", where], cwd=cwd, log=path, ready=True)

`treadle ps` lists them. If its keeper or its reaper dies, the program ends with everything it has started. When the
program exits, what it left running is ended.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from treadle.errors import LocalError
from treadle.io import files
from treadle.io.process import tree
from treadle.io.process.programs import run_program


def detach(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    log: str | None = None,
    ready: bool = False,
    fds: Sequence[int] = (),
) -> int:
    """Start it, wait until it runs, and return its pid. It has no input; its stderr is appended to `log`.
    `fds` are further descriptors, as in `tree.spawn`.

    With `ready`, wait until it calls `say_ready` or writes anything to its stdout. If it ends before that, it could not
    start, and the last line of its log says why. Blocks; raises as `tree.spawn` does.
    """
    heard, report = os.pipe()
    try:
        pid = _start(argv, env, cwd, report, log, fds)
        os.close(report)
        report = -1
        if ready and not os.read(heard, 1):
            raise LocalError(f"{argv[0]} ended before it was at work: {_last_line(log) or 'it left no word'}")
        return pid
    finally:
        os.close(heard)
        if report >= 0:
            os.close(report)


_DAEMON = """
import os, sys
pid = os.fork()
if pid:
    os.write(1, b"%d" % pid)
    os._exit(0)
os.setsid()
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(log, 1)
os.dup2(log, 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def daemon(argv: Sequence[str], *, cwd: str, log: str) -> int:
    """Start a program without a keeper: it ends when it wants to, and what it has detached outlives it.

    For a program that supervises others which must outlive it. Its own children are under its own keeper as always.
    """
    done = run_program([sys.executable, "-I", "-S", "-c", _DAEMON, log, *argv], cwd=cwd)
    if done.code:
        raise LocalError(f"{argv[0]} cannot be started: {done.complaint}")
    return int(done.stdout)


def _start(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str,
    stdout: int,
    log: str | None,
    fds: Sequence[int],
) -> int:
    stderr = None if log is None else files.open_append(log)
    try:
        started = tree.request(argv, env=env, cwd=cwd, stdout=stdout, stderr=stderr, fds=fds, detached=True)
        try:
            started.await_started()
            return started.pid
        finally:
            started.close()
    finally:
        if stderr is not None:
            os.close(stderr)


def say_ready() -> None:
    """Called by the program itself when it is ready. After this its stdout leads nowhere."""
    os.write(1, b"\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _last_line(path: str | None) -> str:
    if path is None:
        return ""
    lines, torn = files.read_lines(path)
    filled = [line for line in (*lines, torn) if line.strip()]
    return filled[-1].decode(errors="replace").removeprefix("treadle: ")[:500] if filled else ""
