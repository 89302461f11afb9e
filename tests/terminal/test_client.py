"""The Python client, against a real supervisor."""

import os
import socket
import threading
from pathlib import Path

import pytest

from tests.terminal.support import Stage, until
from treadle.errors import NotFound, PeerExited, PeerStalled, RemoteProtocolError, TimedOut
from treadle.terminal.client import Client
from treadle.wire.terminal import frames as wire


def test_a_client_can_ask_type_and_watch(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read line; echo got $line; exit 3")
    with Client(place.sock) as client:
        assert client.status().alive == 1
        client.input(b"it\n")
        assert b"got it" in b"".join(client.output(50))
        assert client.exit_code == 3
        assert client.stop(1e9)["code"] == 3  # longer than the wire can express


def test_what_comes_while_an_answer_is_awaited_is_kept_in_order(stage: Stage) -> None:
    place = stage.start("sh", "-c", "seq 1 2000")
    with Client(place.sock) as client:
        client.subscribe()
        for _ in range(5):
            client.status()
        output = b"".join(message.data for message in client.messages(50) if isinstance(message, wire.ProgramOutput))
    assert output.split() == [b"%d" % number for number in range(1, 2001)]


def test_waiting_has_an_end(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with Client(place.sock) as client:
        client.subscribe()
        with pytest.raises(TimedOut):
            next(client.messages(0.1))
        assert client.status().alive == 1


def test_nobody_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Client(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("says", "error"), [(b"", PeerExited), (b"\x01", RemoteProtocolError), (b"\0\x82\0\0\0\x01x", RemoteProtocolError)]
)
def test_a_peer_that_is_no_supervisor_gives_an_error_of_ours(
    tmp_path: Path, says: bytes, error: type[Exception]
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises((error, RemoteProtocolError)):
            with Client(str(tmp_path / "s"), timeout=50) as client:
                client.status()
        thread.join(50)


def test_a_supervisor_that_does_not_greet_is_stalled(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(PeerStalled, match="does not answer"):
            Client(str(tmp_path / "s"), timeout=0.1)


def test_a_supervisor_without_our_additions_is_told_apart_by_its_silence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b"\0")
                while sock.recv(1000):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        with Client(str(tmp_path / "s")) as client:
            client.timeout = 0.2
            with pytest.raises(PeerStalled, match="Detail"):
                client.detail()
        thread.join(50)


def test_stop_and_kill_both_end_the_program(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with Client(place.sock) as client:
        report = client.stop(1)
    assert report["code"] == 143 and report["survivors"] == []
    other = stage.start("sleep", "60")
    with Client(other.sock) as client:
        client.kill()
        assert list(client.output(50)) == []
        assert client.exit_code == 143


def test_a_supervisor_that_dies_ends_the_wait(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with Client(place.sock) as client:
        client.subscribe()
        os.kill(place.pids()[0], 9)
        with pytest.raises(PeerExited):
            list(client.messages(50))


def test_a_text_is_typed_only_when_it_can_approve_nothing(stage: Stage) -> None:
    place = stage.start("sh", "-c", 'printf "\\033]7501;state=blocked:app=x:kind=permission\\007"; cat')
    with Client(place.sock) as client:
        until(lambda: client.detail()["state"]["name"] == "permission")
        refused = client.type_in(b"yes, do it")
        assert (refused["typed"], refused["why"]) == (False, "permission")
        assert client.type_in(b"\r", wire.PRESSES_ENTER)["why"] == "permission"
        assert client.type_in(b"1")["typed"]
        assert client.type_in(b"and this\n", wire.ANYWAY)["typed"]
        assert client.explain()["report"] == "state=blocked:app=x:kind=permission"
        client.subscribe()
        seen = b""
        for message in client.messages(50):
            seen += message.data if isinstance(message, wire.ProgramOutput) else b""
            if b"1and this\r\n1and this" in seen:
                break
    assert b"yes" not in seen
