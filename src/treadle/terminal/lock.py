"""One supervisor for each id, and none while an ended one left work. The lock is `flock` on the pid file, as in other
supervisors of this protocol.

The kernel frees it with the last process that has the descriptor: the supervisor, or after its death the reaper, which
records how the terminal ended. So an id is free exactly when nothing of its terminal is left. A lock belongs to a file
and not to its name: after locking, `take` checks that the name still leads to that file, because the last holder may
have removed it in between; `remove` unlinks while it still holds the lock.
"""

import fcntl
import os
import time

from treadle.errors import Busy, ConfigError, NotFound, StorageError, TreadleError
from treadle.io import paths
from treadle.io.files import storage_error
from treadle.io.paths import state_dir
from treadle.terminal.history import START, exit_record
from treadle.terminal.places import Place

# Whether an ended terminal has left work in a worktree of its own. Light: every start of a terminal asks it.


def base() -> str:
    """Where the worktrees of terminals are."""
    return os.path.join(state_dir(), "worktrees")


def is_own(workdir: str) -> bool:
    return workdir.startswith(os.path.join(os.path.realpath(base()), ""))


def directory(workdir: str) -> str:
    """The directory of the workspace that a program works in; empty when it has none, or that is gone."""
    if not is_own(workdir) or not os.path.isdir(workdir):
        return ""
    top = os.path.realpath(base())
    return os.path.join(top, os.path.relpath(workdir, top).split(os.sep)[0])


def left_in(place: Place) -> str:
    """The worktree that an ended terminal has left, neither brought over nor thrown away."""
    return directory(workdir_of(place))


def workdir_of(place: Place) -> str:
    """Where the program of an ended terminal worked, by its exit record or, if it was lost, by its start record."""
    try:
        return str(exit_record(place.exit).get("workdir") or "")
    except NotFound:
        record = START.load(place.start)
        return str(record["settings"].get("workdir") or "") if record else ""


def check(place: Place, workdir: str = "") -> None:
    """Refuse to give away an id whose last terminal has left work: its records are how that work is found.

    What is started in that worktree again goes on with it.
    """
    try:
        left = left_in(place)
    except StorageError as error:
        raise ConfigError(
            f"whether the last program in {place.id} has left work is unknown: {error}",
            hint=f"use another id, or remove {place.exit} if you need nothing from it",
        ) from error
    if left and not os.path.realpath(workdir or "/").startswith(os.path.join(left, "")):
        raise ConfigError(
            f"the last program in {place.id} has left work in its worktree",
            hint=f"`treadle merge {place.id}` merges it, --discard deletes it; or use another id",
        )


class Lock:
    """The pid file, locked for this process and those that inherit the descriptor."""

    def __init__(self, place: Place, fd: int) -> None:
        self.place = place
        self.fd = fd

    def write(self, *pids: int) -> None:
        data = b"\n".join(b"%d" % pid for pid in pids) + (b"\n" if len(pids) == 1 else b"")
        try:
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, data, 0)
        except OSError as error:
            raise storage_error(error, self.place.pid, "write") from error

    @property
    def replaced(self) -> bool:
        """Whether another terminal has the id by now: if the pid file or its directory was removed, it was free."""
        return os.path.exists(self.place.pid) and not _is_at(self.fd, self.place.pid)

    def restore(self, *pids: int) -> bool:
        """If the pid file was removed, perhaps with its directory, make and lock it again. Returns whether it was.

        The reaper keeps the lock on the old file, so if we are killed now, the new one is free before it is done.
        """
        if os.path.exists(self.place.pid):
            return False
        paths.private_dir(self.place.directory)
        again = take(self.place)
        os.dup2(again.fd, self.fd, inheritable=False)
        os.close(again.fd)
        self.write(*pids)
        return True

    def remove(self) -> None:
        """Remove the pid file if it is still ours, then release the lock."""
        try:
            if not self.replaced:
                os.unlink(self.place.pid)
        except FileNotFoundError:
            pass
        os.close(self.fd)


def take(place: Place, workdir: str = "") -> Lock:
    """Take the lock. Raises Busy, naming the holder. What a dead supervisor left is taken over."""
    while True:
        try:
            fd = os.open(place.pid, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise storage_error(error, place.pid, "open") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise Busy(_held(place), hint=f"`treadle attach {place.id}`, or use another --id") from None
        if _is_at(fd, place.pid):
            break
        os.close(fd)  # its last holder removed it between our open and our lock
    try:
        _refuse_survivor(place)
        if os.path.exists(place.exit) or os.path.exists(place.start):
            check(place, workdir)
    except TreadleError:
        os.close(fd)
        raise
    os.fchmod(fd, 0o600)
    return Lock(place, fd)


def _is_at(fd: int, path: str) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (found.st_dev, found.st_ino)


def _held(place: Place) -> str:
    for _ in range(20):  # the holder writes its pid just after it gets the lock
        pid, child = place.pids()
        if pid:
            break
        time.sleep(0.05)
    running = f", program {child}" if child else ""
    return f"session {place.id} is already running: supervisor {pid or 'unknown'}{running}"


def _refuse_survivor(place: Place) -> None:
    """Refuse to start a second copy of a program that outlived its supervisor.

    Pids are reused, but a supervisor's program leads its own session, which a process with a reused pid rarely does.
    After a reboot many do: no process is older than the machine's start.
    """
    _, child = place.pids()
    try:
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        survives = child > 1 and os.getsid(child) == child and os.stat(place.pid).st_mtime > booted
    except OSError:
        return
    if survives:
        raise Busy(
            f"session {place.id} has no supervisor, but its process {child} is still running",
            hint=f"end it with `kill {child}`, or remove {place.pid} if that is another program",
        )
