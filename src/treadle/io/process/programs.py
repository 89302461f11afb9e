"""Runs a helper program such as git to its end and collects its output. Agents and tools are started in `tree.py`.

Small commands use this too, so it imports nothing slow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from treadle.errors import ConfigError, LocalError, NotFound, TimedOut
from treadle.io import tasks
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

LOOK_SECONDS = 0.1
"""Seconds between two checks whether the thread was told to stop."""


def command_words(command: str) -> list[str]:
    """A command line split into words as a shell would."""
    import shlex

    try:
        return shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"the command {command!r} cannot be read: {error}", hint="check its quotes") from None


_distrusted: set[str] = set()
"""Directories in which agents of this process write, or whose files come from one."""


def distrust(*workspaces: str) -> None:
    """Take no program of ours from these directories any more, wherever it is started."""
    _distrusted.update(place for place in map(os.path.realpath, workspaces) if place != "/")


def find_outside(name: str, *workspaces: str, path: str | None = None) -> str | None:
    """Where this program is on PATH outside these directories, in which an agent may have put one.

    Our own environment counts anyway, because commands cannot write to it (`io/sandbox/places.py`).
    """
    inside = [*map(os.path.realpath, workspaces), *_distrusted]
    ours = os.path.realpath(sys.prefix)
    for place in (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep):
        found = os.path.join(place, name)
        if not os.path.isabs(place) or not os.path.isfile(found) or not os.access(found, os.X_OK):
            continue
        leads = (os.path.realpath(place), os.path.realpath(found))  # a link may lead back into a workspace
        if all(_is_under(one, ours) or not any(_is_under(one, other) for other in inside) for one in leads):
            return found
    return None


def path_outside() -> str:
    """PATH without the directories that an agent may write to: those that are in a checkout or are distrusted.

    An activated environment of a project is often first on PATH, and a program that works on what agents have made
    must not be one that they have made.
    """
    trusted, distrusted = [], tuple(_distrusted)  # other threads add to it
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        real = os.path.realpath(place)
        inside = any(_is_under(real, one) for one in distrusted) or _checkout_around(real) is not None
        if os.path.isabs(place) and not inside:
            trusted.append(place)
    return os.pathsep.join(trusted)


def _checkout_around(place: str) -> str | None:
    """The nearest directory from here upwards that has a `.git`."""
    while not os.path.lexists(os.path.join(place, ".git")):
        if place == os.path.dirname(place):
            return None
        place = os.path.dirname(place)
    return place


def _is_under(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _workspace(cwd: str | None) -> tuple[str, ...]:
    """The directory that a helper works in, and the repository around it."""
    place = os.path.realpath(cwd) if cwd is not None else "/"
    if cwd is None or place == "/":
        return ()
    around = _checkout_around(place)
    return (cwd,) if around in (None, "/") else (cwd, around)


_PASSING = (b"No space left on device", b"Cannot allocate memory", b"Too many open files", b"died of signal")


class Finished:
    """How a program ended and what it said."""

    __slots__ = ("code", "stderr", "stdout")

    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def complaint(self) -> str:
        """The end of its stderr."""
        return self.stderr.decode("utf-8", "replace").strip()[-2000:]

    @property
    def passing(self) -> bool:
        """Whether it failed because it was killed or the machine was full: it may go well another time."""
        return self.code < 0 or any(words in self.stderr for words in _PASSING)


def _resolved(argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None) -> str:
    program = argv[0]
    if "/" in program:
        return program
    found = find_outside(program, *_workspace(cwd), path=None if env is None else env.get("PATH", os.defpath))
    return found or os.path.join("/no/such/place", program)


def _started(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None, stdin: int | IO[bytes], stderr: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            executable=_resolved(argv, cwd, env),
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if cwd is not None and not os.path.isdir(cwd):
            raise NotFound(f"no such directory: {cwd}") from error
        raise _not_found(argv[0]) from error
    except OSError as error:
        raise LocalError(f"cannot start {argv[0]!r}: {error.strerror}") from error


def _not_found(program: str) -> NotFound:
    from shutil import which

    there = which(program)
    if there is None:
        return NotFound(f"the program {program!r} is not installed", hint="install it, or put it on PATH")
    return NotFound(
        f"the only {program!r} on PATH is {there}, where an agent may have put it, so it is not run",
        hint=f"install {program} outside of your projects",
    )


def run_program(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 60.0,
) -> Finished:
    """Blocks; inside an event loop, call it in a thread. When the time is up, it and its children are killed: TimedOut.

    They are also killed, with Cancelled, when the thread is told to stop (`io/tasks.py`). The program is looked up
    on PATH, but not in its working directory or the repository around it.
    """
    timeout = tasks.at_most(timeout)
    process = _started(argv, cwd, env, subprocess.PIPE if stdin else subprocess.DEVNULL, subprocess.PIPE)
    with process:
        try:
            stdout, stderr = _hear(process, stdin, timeout)
        except BaseException as error:
            _kill(process)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimedOut(f"{' '.join(argv[:3])} did not end within {round(timeout, 1):g} s") from None
            raise
    return Finished(process.returncode, stdout, stderr)


@contextmanager
def reading_program(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes, timeout: float = 600.0
) -> Iterator[IO[bytes]]:
    """Its output as a file to read from, however much it is. At the end of the block it and its children are gone.

    They are also killed when the time is up or the thread is told to stop; the output then ends early.
    """
    import tempfile
    import threading

    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = _started(argv, cwd, env, given, subprocess.DEVNULL)
    ended, stopped, timeout = threading.Event(), tasks.stop_requested(), tasks.at_most(timeout)

    def look() -> None:
        left = timeout
        while not ended.wait(LOOK_SECONDS):
            left -= LOOK_SECONDS
            if stopped() or left <= 0:
                _kill(process)
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        ended.set()
        looking.join()
        _kill(process)
        with process:
            pass  # closes its output and waits for it
    tasks.check()


def _hear(process: subprocess.Popen[bytes], stdin: bytes, timeout: float) -> tuple[bytes, bytes]:
    if not tasks.can_be_stopped():
        return process.communicate(stdin, timeout)
    import threading

    ended = threading.Event()

    def look(stopped: Callable[[], bool]) -> None:
        while not ended.wait(LOOK_SECONDS):
            if stopped():
                _kill(process)
                return

    looking = threading.Thread(target=look, args=(tasks.stop_requested(),), daemon=True)
    looking.start()
    try:
        output = process.communicate(stdin, timeout)
    finally:
        ended.set()
        looking.join()
    tasks.check()
    return output


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
