"""What is under the module `socket`, for a command that only asks the warm parent.

To load that module takes two thirds as long as a bare interpreter's start, for names and conveniences that such a
command has no use for. This is the one place where a private module of the standard library is imported.
"""

try:
    from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
except ImportError:  # another Python
    from socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket  # type: ignore[assignment]

__all__ = ["connect", "send_fds", "socket"]

FD_BYTES = 4


def connect(path: str, timeout: float) -> socket:
    """A connection to the Unix socket at `path`; `timeout` applies to this and to all later calls. Raises OSError."""
    made = socket(AF_UNIX, SOCK_STREAM)
    made.settimeout(timeout)
    try:
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def send_fds(control: socket, data: bytes, fds: list[int]) -> int:
    """Send data with copies of these descriptors. Returns how many bytes were sent."""
    import sys

    passed = b"".join(fd.to_bytes(FD_BYTES, sys.byteorder) for fd in fds)
    return control.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, passed)])
