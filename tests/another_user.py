"""A real other user at a Unix socket, who is let in by the files: what is refused is then refused by its server."""

import os
import sys
from pathlib import Path

ROOT = os.geteuid() == 0
REASON = "only root can become another user"
UID = 65534
_CONNECT = """
import os, socket, sys
directory, name = os.path.split(sys.argv[1])
at = os.open(directory, os.O_RDONLY)  # whatever the directories above it permit
os.setresuid(65534, 65534, 65534)
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(f"/proc/self/fd/{at}/{name}")
    sys.exit(sock.recv(1) != b"")
"""


def connecting(path: str) -> list[str]:
    """A command that connects as another user: it ends with 0 if it is cut off before it hears a byte."""
    Path(path).parent.chmod(0o711)
    os.chmod(path, 0o666)
    return [sys.executable, "-I", "-S", "-c", _CONNECT, path]
