"""Unix sockets that only this user can reach. `streams.py` wraps them for asyncio; other loops can select on them.

Light: small commands and terminals use this.
"""

import os
import socket
import struct

from treadle.errors import Denied, NotFound, PeerStalled, StorageError, TreadleError
from treadle.io import files

BACKLOG = 1024


def listen(path: str, backlog: int = BACKLOG, *, owned: bool = False) -> socket.socket:
    """A non-blocking listening socket at `path`. It replaces a dead socket, but never one that someone serves.

    `owned`: the caller holds a lock which guarantees that any socket there is dead.
    """
    if owned:
        return _listen(path, backlog)
    with files.locked(path + ".lock"):
        if os.path.exists(path) and is_served(path):
            raise StorageError(f"{path} is already served by another process")
        return _listen(path, backlog)


def _listen(path: str, backlog: int) -> socket.socket:
    """Made under another name of the same length, and renamed: who finds the file can connect."""
    handle, made = socket.socket(socket.AF_UNIX), f"{path[:-1]}~"
    try:
        try:
            os.unlink(made)
        except FileNotFoundError:
            pass
        handle.bind(made)
        os.chmod(made, 0o600)  # before `listen`: until then no one can connect
        handle.listen(backlog)
        handle.setblocking(False)
        os.rename(made, path)
    except OSError as error:
        handle.close()
        raise files.storage_error(error, path, "listen at") from error
    return handle


def is_served(path: str) -> bool:
    """Whether someone takes connections there. That the file exists does not say so: it outlives its process."""
    with socket.socket(socket.AF_UNIX) as handle:
        return handle.connect_ex(path) == 0


def connect(path: str, timeout: float | None = None) -> socket.socket:
    """A connection to the server of `path`. `timeout` applies to this and to all later calls on the socket."""
    handle = socket.socket(socket.AF_UNIX)
    handle.settimeout(timeout)
    try:
        handle.connect(path)
    except OSError as error:
        handle.close()
        raise no_connection(path, error) from error
    return handle


def no_connection(path: str, error: OSError) -> TreadleError:
    """The error that explains why no one could be reached there."""
    if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
        return NotFound(f"nothing listens at {path}: {error.strerror}")
    if isinstance(error, PermissionError):
        return Denied(f"{path} belongs to another user")
    if isinstance(error, TimeoutError | BlockingIOError):
        return PeerStalled(f"the process that serves {path} does not accept connections")
    return StorageError(f"cannot connect to {path}: {error.strerror}")


def has_left(client: socket.socket) -> bool:
    """Whether the other end was closed, and all that came from it was read. `client` does not block."""
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def same_user(client: socket.socket) -> bool:
    """Whether the process at the other end is ours or root's. Where that is unknown, only its mode protects."""
    return peer_uid(client) in (0, os.geteuid())


def peer_pid(client: socket.socket) -> int:
    """The pid of the process at the other end; for a listener, the one that created it. Linux only."""
    pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def peer_uid(client: socket.socket) -> int:
    """The user at the other end; our own where the system does not tell (macOS)."""
    return peer(client)[1]


def peer(client: socket.socket) -> tuple[int, int]:
    """Process and user at the other end; 0 and our own where the system does not tell (macOS)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0, os.geteuid()
    pid, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid), int(user)
