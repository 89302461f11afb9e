"""`--sandbox`: the whole process, and all that it will ever start, can write only where it is told.

`enter` confines this process and executes it again from its first line, so that no thread that is already there stays
outside. Landlock (through sandlock) is used where the kernel has it, else bubblewrap; without either it refuses. Tools,
hooks, MCP servers, driven agents and the keeper are children and inherit it, also after a double fork, and nothing can
take it off again. What may be read and reached over the network is not limited.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from typing import Literal, NoReturn, TypeAlias

import msgspec

from treadle.errors import ConfigError, TreadleError
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import run_program

Method: TypeAlias = Literal["landlock", "bubblewrap"]

MARK = "TREADLE_IN_SANDBOX"
"""Set for everything inside; its value is the method."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
KEPT = ("sessions", "keepers", "locks", "logs", "tasks", "worktrees")
"""What a session writes in the state directory. Not all of it: who is trusted is not for an agent to change."""


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    method: Method | None
    problems: tuple[str, ...] = ()
    """Why each method that would have been better cannot be used."""
    network: str = "not enforced"


def inside() -> str | None:
    """The method that this process is confined with, if it is."""
    return os.environ.get(MARK) or None


def available() -> Availability:
    landlock = _landlock_problem()
    if landlock is None:
        return Availability(method="landlock")
    bubblewrap = _bubblewrap_problem()
    if bubblewrap is None:
        return Availability(method="bubblewrap", problems=(f"landlock: {landlock}",))
    return Availability(method=None, problems=(f"landlock: {landlock}", f"bubblewrap: {bubblewrap}"))


def writable_places(cwd: str, more: Iterable[str] = ()) -> list[str]:
    """The workspace, what was added to it, the session's own state, temporary files, and harmless devices."""
    state = [private_dir(os.path.join(state_dir(), name)) for name in KEPT]
    devices = [f"/dev/{name}" for name in DEVICES]
    places = [cwd, *(os.path.join(cwd, place) for place in more), *state, tempfile.gettempdir(), *devices]
    return list(dict.fromkeys(os.path.realpath(place) for place in places if os.path.exists(place)))


def enter(
    cwd: str, more: Iterable[str] = (), *, method: Method | None = None, argv: Sequence[str] | None = None
) -> None:
    """Return when this process is already confined, else confine it and execute it again: then this does not return.

    Call it first thing, before anything is open or running that should survive. Raises ConfigError when it cannot be.
    """
    if inside():
        return
    if method is None:
        found = available()
        if found.method is None:
            raise ConfigError(
                "--sandbox cannot be kept on this machine: " + "; ".join(found.problems),
                hint="install bubblewrap (bwrap) or use a kernel with Landlock, or run without --sandbox",
            )
        method = found.method
    places = writable_places(cwd, more)
    command = list(argv) if argv is not None else [sys.executable, *sys.orig_argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    if method == "landlock":
        _execute_under_landlock(places, command)
    _execute_under_bubblewrap(places, command)


def _landlock_problem() -> str | None:
    if sys.platform != "linux":
        return f"not on {sys.platform}"
    try:
        import sandlock  # type: ignore[import-untyped]
    except (ImportError, OSError) as error:
        return f"sandlock is not usable ({error}); pip install 'treadle[sandbox]'"
    has, needs = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if has < needs:
        return f"this kernel has version {max(has, 0)} of it, {needs} is needed"
    return None


def _execute_under_landlock(places: list[str], command: list[str]) -> NoReturn:
    import sandlock

    if threading.active_count() > 1:
        raise ConfigError("the sandbox must be entered before any thread is started")
    try:
        sandlock.confine(sandlock.Sandbox(fs_readable=["/"], fs_writable=places))
    except sandlock.SandlockError as error:
        raise ConfigError(f"Landlock refused to confine this process: {error}") from error
    _check_that_it_holds(places)
    os.execve(command[0], command, {**os.environ, MARK: "landlock"})


def _check_that_it_holds(places: list[str]) -> None:
    outside = next((parent for parent in ("/", "/etc", os.path.expanduser("~")) if parent not in places), None)
    if outside is None:
        return
    probe = os.path.join(outside, f".treadle-sandbox-{os.getpid()}")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return
        raise
    os.unlink(probe)
    raise ConfigError(f"the sandbox does not hold: {outside} can still be written")


def _bubblewrap_problem() -> str | None:
    program = shutil.which("bwrap")
    if program is None:
        return "there is no program bwrap"
    try:
        tried = run_program([program, "--ro-bind", "/", "/", "true"], timeout=10)
    except TreadleError as error:
        return str(error)
    return None if tried.code == 0 else tried.complaint or f"bwrap exits with {tried.code}"


def _execute_under_bubblewrap(places: list[str], command: list[str]) -> NoReturn:
    program = shutil.which("bwrap")
    if program is None:
        raise ConfigError("there is no program bwrap")
    binds = [part for place in places if not place.startswith("/dev/") for part in ("--bind", place, place)]
    wrapped = [program, "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", *binds, "--die-with-parent"]
    os.execve(program, [*wrapped, "--chdir", os.getcwd(), "--", *command], {**os.environ, MARK: "bubblewrap"})
