"""Run a helper program such as git to its end and collect what it says. Agents and tools are spawned in `tree.py`.

Small commands use this too, so it imports nothing that is slow to import.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from treadle.errors import ConfigError, LocalError, NotFound, TimedOut, TreadleError
from treadle.io import stopping

LOOK_SECONDS = 0.1
"""Between looks whether the thread has been told to stop."""


def command_words(command: str) -> list[str]:
    """A command as a person types it, in words as a shell cuts them."""
    import shlex

    try:
        return shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"the command {command!r} cannot be read: {error}", hint="check its quotes") from None


def find_outside(name: str, *workspaces: str, path: str | None = None) -> str | None:
    """Where a program of this name is on PATH, but in none of these directories: what lies in there may be an agent's.

    Our own environment counts all the same, as commands cannot write it (`io/sandbox/places.py`).
    """
    inside = [os.path.realpath(place) for place in workspaces]
    ours = os.path.realpath(sys.prefix)
    for place in (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep):
        found, real = os.path.join(place, name), os.path.realpath(place)
        if not os.path.isabs(place) or not os.path.isfile(found) or not os.access(found, os.X_OK):
            continue
        if _is_under(real, ours) or not any(_is_under(real, one) for one in inside):
            return found
    return None


def _is_under(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _workspace(cwd: str | None) -> tuple[str, ...]:
    """Where a helper works, and the repository around it."""
    place = os.path.realpath(cwd) if cwd is not None else "/"
    if cwd is None or place == "/":
        return ()
    while place != os.path.dirname(place) and not os.path.lexists(os.path.join(place, ".git")):
        place = os.path.dirname(place)
    return (cwd,) if place == "/" else (cwd, place)


class Finished:
    """How a program ended and what it said."""

    __slots__ = ("code", "stderr", "stdout")

    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def complaint(self) -> str:
        """The last of what it said on stderr."""
        return self.stderr.decode("utf-8", "replace").strip()[-2000:]


def run_program(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 60.0,
) -> Finished:
    """Blocks; call it in a thread where a loop runs. When time is up, it and its children are killed: TimedOut.

    So they are, with Cancelled, when the thread is told to stop (`io/stopping.py`). A name is looked for on PATH, but
    not in the directory that the program is to work in, nor in the repository around that.
    """
    program = argv[0]
    if "/" not in program:
        found = find_outside(program, *_workspace(cwd), path=None if env is None else env.get("PATH", os.defpath))
        program = found or os.path.join("/no/such/place", program)
    try:
        process = subprocess.Popen(
            argv,
            executable=program,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if cwd is not None and not os.path.isdir(cwd):
            raise NotFound(f"no such directory: {cwd}") from error
        raise NotFound(f"the program {argv[0]!r} is not installed", hint="install it, or put it on PATH") from error
    except OSError as error:
        raise LocalError(f"cannot start {argv[0]!r}: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = _hear(process, stdin, timeout)
        except BaseException as error:
            _kill(process)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimedOut(f"{' '.join(argv[:3])} did not end within {timeout:g} s") from None
            raise
    return Finished(process.returncode, stdout, stderr)


def _hear(process: subprocess.Popen[bytes], stdin: bytes, timeout: float) -> tuple[bytes, bytes]:
    if not stopping.may_be_told():
        return process.communicate(stdin, timeout)
    import threading

    ended = threading.Event()

    def look(told: Callable[[], bool]) -> None:
        while not ended.wait(LOOK_SECONDS):
            if told():
                _kill(process)
                return

    looking = threading.Thread(target=look, args=(stopping.told(),), daemon=True)
    looking.start()
    try:
        said = process.communicate(stdin, timeout)
    finally:
        ended.set()
        looking.join()
    stopping.check()
    return said


def output_of(argv: Sequence[str]) -> str | None:
    """What it prints, without the last newline; None when it failed or is not there. Its stderr is dropped."""
    try:
        done = run_program(argv)
    except TreadleError:
        return None
    return done.stdout.decode(errors="surrogateescape").removesuffix("\n") if done.code == 0 else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
