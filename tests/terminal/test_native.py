import os
import socket
import stat
from pathlib import Path

import pytest

from treadle.errors import NotFound, StorageError
from treadle.terminal import native


def test_a_listening_socket_is_private_and_replaces_a_dead_one(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    native.listen(path).close()
    listener = native.listen(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    client = native.connect(path)
    accepted = native.accept(listener)
    assert native.peer_uid(accepted) == os.geteuid()
    client.send(b"x")
    assert accepted.recv(1) == b"x"
    for sock in (client, accepted, listener):
        sock.close()


def test_a_crowd_can_knock_before_anybody_opens(tmp_path: Path) -> None:
    listener = native.listen(str(tmp_path / "s"))
    allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    crowd = [native.connect(str(tmp_path / "s"), timeout=5) for _ in range(min(300, allowed))]
    for sock in (*crowd, listener):
        sock.close()


def test_nobody_listening_is_not_found_and_a_place_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        native.connect(str(tmp_path / "s"))
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "s"))
    dead.close()
    with pytest.raises(NotFound):
        native.connect(str(tmp_path / "s"))
    with pytest.raises(StorageError):
        native.listen(str(tmp_path / "no" / "s"))
