"""Run one command in the sandbox as the user nobody: `python as_nobody.py ROOM.json COMMAND`, started as root.

The interpreter of the tests may lie where only root can read, so nothing of Python is started after the change of user;
what is tried is the command line that treadle makes for that user, and its handshake.
"""

import fcntl
import os
import subprocess
import sys

import msgspec

from treadle.io.sandbox import bubblewrap, seccomp
from treadle.session import Confinement


def main(room: str, command: str) -> int:
    walls = msgspec.json.decode(room, type=Confinement)
    go, tell_go, hear_ready, ready, rules, tell_rules = (
        aside(fd) for pipe in (os.pipe(), os.pipe(), os.pipe()) for fd in pipe
    )
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    os.environ.update({"HOME": "/nonexistent", "TREADLE_HOME": os.environ["STATE"]})
    os.write(tell_rules, seccomp.program() or b"")
    os.close(tell_rules)
    program = bubblewrap.find()
    assert program is not None
    argv = bubblewrap.command(program, walls, walls.write[0], filtered=seccomp.program() is not None)
    argv += bubblewrap.init(["/bin/bash", "-c", command], linger=False)
    for fd, number in ((go, bubblewrap.GO), (ready, bubblewrap.READY), (rules, bubblewrap.FILTER)):
        os.dup2(fd, number)
        os.close(fd)
    inherited = (bubblewrap.GO, bubblewrap.READY, bubblewrap.FILTER)
    process = subprocess.Popen(argv, pass_fds=inherited, stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
    for number in inherited:
        os.close(number)
    assert os.read(hear_ready, 1) == b"r"
    os.write(tell_go, b"g\n")
    return process.wait()


def aside(fd: int) -> int:
    """Out of the way of the numbers that the sandbox wants."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return moved


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
