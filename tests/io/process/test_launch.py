"""From fork to exec: the command runs as requested, or the parent learns why it does not."""

import errno
import os
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


def test_what_it_is_to_look_through_is_made_first_and_it_does_not_run_without() -> None:
    view = {"scope": False, "user": False, "network": b"/no/such/network", "place": b"/", "steps": []}
    failure, said, status = started(["echo", "ran"], view=view)
    assert failure is not None and (failure[:2], said, status) == (("look", errno.ENOENT), b"", 127)
    assert started(["echo", "ran"], view={}) == (None, b"ran\n", 0)


def test_a_program_is_found_on_the_path_that_it_is_given_or_where_its_name_says(tmp_path: Path) -> None:
    for folder, says, mode in (("a", "from a", 0o644), ("b", "from b", 0o755), ("c", "from c", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text(f"#!/bin/sh\necho {says}\n")
        (tmp_path / folder / "tool").chmod(mode)
    (tmp_path / "file").touch()
    here = os.fsencode(tmp_path)

    def ran(name: str, path: str | None, cwd: bytes = here) -> tuple[tuple[str, int, str] | None, bytes, int]:
        return started([name], env={} if path is None else {b"PATH": path.encode()}, cwd=cwd)

    assert ran("tool", f"{tmp_path}/none:{tmp_path}/file:{tmp_path}/a:{tmp_path}/b:{tmp_path}/c") == (
        None,
        b"from b\n",
        0,
    )
    assert ran("c/tool", f"{tmp_path}/b") == (None, b"from c\n", 0)
    assert ran("tool", "", here + b"/c") == (None, b"from c\n", 0), "an empty part is the directory it is in"
    failure, _, code = ran("tool", f"{tmp_path}/a:{tmp_path}/none")
    assert failure is not None and (failure[:2], code) == (("start", errno.EACCES), 127)
    failure, _, _ = ran("c/tool", f"{tmp_path}/b", b"/")
    assert failure is not None and failure[:2] == ("start", errno.ENOENT)
    assert ran("true", None) == (None, b"", 0), "without a path the usual one is searched"


def test_only_what_is_inherited_stays_open() -> None:
    def act() -> list[int]:
        kept = os.open("/dev/null", os.O_RDONLY)
        launch.close_all_but([1, kept, write])
        return [kept, *(fd for fd in range(256) if os.path.exists(f"/dev/fd/{fd}"))]

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        found = act()
        os.write(write, b"fine" if found[1:] == sorted([1, found[0], write]) else repr(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"fine"
    os.waitpid(pid, 0)
