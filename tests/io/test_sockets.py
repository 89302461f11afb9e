"""Unix sockets for this user alone: they replace dead ones, never those that someone serves."""

import os
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from tests import another_user
from treadle.errors import Denied, NotFound, PeerStalled, StorageError
from treadle.io import sockets


@pytest.mark.parametrize("owned", [True, False])
def test_a_listening_socket_is_private_and_replaces_a_dead_one(tmp_path: Path, owned: bool) -> None:
    path = str(tmp_path / "s")
    sockets.listen(path, owned=owned).close()
    listener = sockets.listen(path, owned=owned)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    client = sockets.connect(path, timeout=60)
    assert client.gettimeout() == 60
    accepted, _ = listener.accept()
    assert sockets.same_user(accepted) and sockets.peer_uid(accepted) == os.geteuid()
    client.send(b"x")
    assert accepted.recv(1) == b"x"
    for sock in (client, accepted, listener):
        sock.close()


@pytest.mark.skipif(not another_user.ROOT, reason=another_user.REASON)
def test_another_user_is_told_from_this_one(tmp_path: Path) -> None:
    listener = sockets.listen(str(tmp_path / "s"))
    listener.settimeout(60)
    other = subprocess.Popen(another_user.connecting(str(tmp_path / "s")))
    accepted, _ = listener.accept()
    assert sockets.peer_uid(accepted) == another_user.UID and not sockets.same_user(accepted)
    accepted.close()
    listener.close()
    assert other.wait(60) == 0


def test_one_that_is_served_is_not_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with sockets.listen(path):
        with pytest.raises(StorageError, match="already served"):
            sockets.listen(path)
        sockets.connect(path).close()


def test_a_crowd_can_knock_before_anybody_opens(tmp_path: Path) -> None:
    listener = sockets.listen(str(tmp_path / "s"))
    allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    crowd = [sockets.connect(str(tmp_path / "s"), timeout=60) for _ in range(min(300, allowed))]
    for sock in (*crowd, listener):
        sock.close()


def test_one_that_does_not_open_is_not_waited_for_longer_than_allowed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with sockets.listen(path, backlog=0), sockets.connect(path), pytest.raises(PeerStalled, match="does not take"):
        sockets.connect(path, timeout=0.05)


def test_nobody_listening_is_not_found_and_a_place_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no one listens"):
        sockets.connect(str(tmp_path / "s"))
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "s"))
    dead.close()
    with pytest.raises(NotFound, match="no one listens"):
        sockets.connect(str(tmp_path / "s"))
    for owned in (True, False):
        with pytest.raises(StorageError, match="listen at|lock"):
            sockets.listen(str(tmp_path / "no" / "s"), owned=owned)


def test_who_finds_the_file_can_connect(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.sock") for number in range(200)]
    listeners = []

    def make() -> None:
        listeners.extend(sockets.listen(path, owned=True) for path in paths)

    maker = threading.Thread(target=make)
    maker.start()
    for path in paths:
        while not os.path.exists(path):
            assert maker.is_alive() or os.path.exists(path)
        sockets.connect(path).close()
    maker.join()
    for listener in listeners:
        listener.close()
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, paths))


def test_a_listener_does_not_block_is_private_from_the_first_and_clears_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / "one.soc~").touch()
    with sockets.listen(str(tmp_path / "one.sock")) as listener:
        assert listener.gettimeout() == 0.0 and sockets.peer_pid(listener) == os.getpid()
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert sorted(os.listdir(tmp_path)) == ["one.sock", "one.sock.lock"]
    assert not sockets.is_served(str(tmp_path / "one.sock")) and not sockets.is_served(str(tmp_path / "none"))


def test_why_no_one_could_be_reached_is_told() -> None:
    for error, kind, says in (
        (FileNotFoundError(2, "not there"), NotFound, "no one listens at /s: not there"),
        (NotADirectoryError(20, "no directory"), NotFound, "no one listens at /s: no directory"),
        (ConnectionRefusedError(111, "refused"), NotFound, "no one listens at /s: refused"),
        (PermissionError(13, "no"), Denied, "/s belongs to another user"),
        (TimeoutError(110, "late"), PeerStalled, "the process that serves /s does not take connections"),
        (BlockingIOError(11, "full"), PeerStalled, "the process that serves /s does not take connections"),
        (OSError(71, "odd"), StorageError, "cannot connect to /s: odd"),
    ):
        found = sockets.no_connection("/s", error)
        assert type(found) is kind and found.message == says


def test_whether_the_other_end_has_left_is_seen_without_taking_anything() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    assert not sockets.has_left(ours)
    theirs.send(b"last")
    theirs.close()
    assert not sockets.has_left(ours) and ours.recv(10) == b"last" and sockets.has_left(ours)
    ours.close()
    assert sockets.has_left(ours), "what is closed leads to no one"


def test_a_connection_waits_as_long_as_its_caller_says(tmp_path: Path) -> None:
    with sockets.listen(str(tmp_path / "s")), sockets.connect(str(tmp_path / "s"), 0.01) as client:
        with pytest.raises(TimeoutError):
            client.recv(1)
        with sockets.connect(str(tmp_path / "s")) as patient:
            assert patient.gettimeout() is None
            assert sockets.same_user(patient) and sockets.peer_uid(patient) == os.geteuid()
