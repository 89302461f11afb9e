"""The Python client, against a real supervisor."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.terminal.support import Stage, until
from treadle.errors import NotFound, PeerExited, PeerStalled, RemoteProtocolError, TimedOut, Unsupported
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
        assert client.type_in(b"1")["why"] == "permission"
        assert client.type_in(b"1", wire.ANSWERS, client.detail()["state"]["dialog"])["typed"]
        assert client.type_in(b"and this\n", wire.ANYWAY)["typed"]
        assert client.explain()["report"] == "state=blocked:app=x:kind=permission"
        client.subscribe()
        seen = b""
        for message in client.messages(50):
            seen += message.data if isinstance(message, wire.ProgramOutput) else b""
            if b"1and this\r\n1and this" in seen:
                break
    assert b"yes" not in seen


@contextmanager
def played(path: Path, *steps: bytes | int) -> Iterator[None]:
    """A supervisor that says these bytes one after the other, and reads so many where a number stands."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def play() -> None:
            sock, _ = listener.accept()
            with sock:
                for step in steps:
                    if isinstance(step, bytes):
                        sock.sendall(step)
                    else:
                        while step > 0 and (data := sock.recv(step)):
                            step -= len(data)

        thread = threading.Thread(target=play)
        thread.start()
        yield
        thread.join(50)


def hello(version: int) -> bytes:
    return wire.encode(wire.HelloReply(version, 0, 0, 0, 80, 24))


def test_stages_of_a_prompt_come_one_after_the_other_whatever_is_between(tmp_path: Path) -> None:
    size = len(wire.encode(wire.ClientHello(0, 0)))
    queued, typed, over = (wire.encode(wire.Prompted(b'{"stage": "%s"}' % stage)) for stage in (b"q", b"t", b"o"))
    output = wire.encode(wire.ProgramOutput(b"x"))
    asked = len(wire.encode(wire.SubmitPrompt(0, 20_000, b"hi"))) + len(wire.encode(wire.StatusQuestion()))
    status = wire.encode(wire.StatusReply.of(1, 2, True, 0, 3))
    with played(tmp_path / "s", b"\0", size, hello(2), asked, output + queued + typed + status, 1000):
        with Client(str(tmp_path / "s"), timeout=50) as client:
            client.subscribe()
            assert client.prompt(b"hi")["stage"] == "q" and client.version == 2
            client.status()
            assert client.prompted()["stage"] == "t", "it came while the status was awaited"
            with pytest.raises(TimedOut):
                client.prompted(time.monotonic() + 0.05)
            assert [type(message) for message in client.waiting()] == [wire.ProgramOutput] and client.waiting() == []
    assert over


def test_an_earlier_version_is_sent_no_prompt(tmp_path: Path) -> None:
    with played(tmp_path / "s", b"\0", len(wire.encode(wire.ClientHello(0, 0))), hello(1), 1000):
        with Client(str(tmp_path / "s"), timeout=50) as client:
            with pytest.raises(Unsupported, match="earlier version") as refused:
                client.prompt(b"hi")
            assert "send --anyway" in str(refused.value.hint)


def test_one_that_does_not_read_is_stalled_and_one_that_left_has_ended(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        made: list[Client] = []
        thread = threading.Thread(target=lambda: made.append(Client(str(tmp_path / "s"), timeout=50)))
        thread.start()
        sock, _ = listener.accept()
        sock.sendall(b"\0")
        thread.join(50)
        (client,) = made
        client.subscribe()
        client.timeout = 0.05
        client.sock.setblocking(False)
        assert client.receive() == []
        with pytest.raises(PeerStalled, match="does not read"):
            client.input(b"x" * 10_000_000)
        sock.sendall(wire.encode(wire.Exit(4)))
        client.sock.setblocking(True)
        assert client.receive() == [wire.Exit(4)]
        sock.close()
        with pytest.raises(PeerExited):
            client.input(b"x")
        client.close()
        with pytest.raises(PeerExited):
            client.receive()


def test_one_deadline_bounds_every_wait(tmp_path: Path) -> None:
    with played(tmp_path / "s", b"\0", 10_000):
        with Client(str(tmp_path / "s"), timeout=None, until=time.monotonic() + 0.2) as client:
            with pytest.raises(PeerStalled, match="does not answer StatusQuestion"):
                client.status()
            with pytest.raises(TimedOut):
                list(client.messages())
