"""From fork to exec: the command runs as requested, or the parent learns why it does not."""

import errno
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.io.process import launch


def started(argv: list[str], stdio: int = 3, **more: Any) -> tuple[tuple[str, int, str] | None, bytes, int]:
    """Why it could not be started (or None), what it printed, and its exit code."""
    read, write = os.pipe()
    errors, told = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    request = {
        "argv": [os.fsencode(part) for part in argv],
        "env": {b"PATH": os.fsencode(os.environ["PATH"])},
        "cwd": b"/",
        "tty": False,
        "limits": [],
        **more,
    }
    pid = os.fork()
    if pid == 0:
        launch.become(request, [null, write, write, null, write][:stdio], told)
    for fd in (write, told, null):
        os.close(fd)
    failure = launch.why_not(errors)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    return failure, said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_it_leads_a_session_in_its_directory_with_nothing_else_open(tmp_path: Path) -> None:
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    code = (
        "import os; print(os.getsid(0) == os.getpid(), os.getcwd(), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    )
    failure, said, status = started([sys.executable, "-I", "-S", "-c", code], cwd=os.fsencode(tmp_path))
    os.close(held)
    assert (failure, status) == (None, 0)
    assert said.decode().split(maxsplit=2) == ["True", str(tmp_path), "[0, 1, 2]\n"]


def test_further_descriptors_get_the_numbers_after_the_standard_ones() -> None:
    code = "import os; os.write(4, b'four')"
    assert started([sys.executable, "-I", "-S", "-c", code], stdio=5) == (None, b"four", 0)


def test_limits_are_set_before_it_runs() -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    _, said, _ = started([sys.executable, "-I", "-S", "-c", code], limits=[(resource.RLIMIT_CORE, 0, 0)])
    assert said == b"(0, 0)\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "doing", "number"),
    [
        (["no-such-program"], "/", "start", errno.ENOENT),
        (["/etc/passwd"], "/", "start", errno.EACCES),
        (["true"], "/no/such/place", "enter", errno.ENOENT),
        (["true"], "/etc/passwd", "enter", errno.ENOTDIR),
        (["echo", "a\0b"], "/", "start", errno.EINVAL),
    ],
)
def test_what_could_not_be_done_is_told(argv: list[str], cwd: str, doing: str, number: int) -> None:
    failure, said, status = started(argv, cwd=os.fsencode(cwd))
    assert failure is not None and (failure[:2], said, status) == ((doing, number), b"", 127)
    assert failure[2]
