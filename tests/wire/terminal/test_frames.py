"""The bytes of the terminal wire, line by line of the protocol."""

import pytest

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.terminal import frames as terminal
from treadle.wire.terminal.frames import Exit, Input, ProgramOutput, Resize, StateFrame, StatusReply, encode


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Input(b"ls\r"), b"\x01\x00\x00\x00\x03ls\r"),
        (terminal.Subscribe(), b"\x02\x00\x00\x00\x00"),
        (terminal.StatusQuestion(), b"\x03\x00\x00\x00\x00"),
        (Resize(220, 50), b"\x04\x00\x00\x00\x04\x00\xdc\x00\x32"),
        (terminal.Kill(), b"\x05\x00\x00\x00\x00"),
        (ProgramOutput(b"hi"), b"\x81\x00\x00\x00\x02hi"),
        (
            StatusReply.of(0x01020304, 0x05060708, True, 0x02, 0x090A0B0C),
            b"\x82\x00\x00\x00\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x01\x02\x09\x0a\x0b\x0c\x00",
        ),
        (Exit(143), b"\x83\x00\x00\x00\x04\x00\x00\x00\x8f"),
        (Exit(-1), b"\x83\x00\x00\x00\x04\xff\xff\xff\xff"),
    ],
)
def test_each_frame_of_the_protocol_has_these_bytes(message: terminal.Frame, data: bytes) -> None:
    assert encode(message) == data


def test_times_that_do_not_fit_are_the_longest_that_do() -> None:
    reply = StatusReply.of(1, 2**32, False, terminal.DEAD, 2**50)
    assert (reply.idle_ms, reply.state_ms, reply.alive, reply.state_name) == (2**32 - 1, 2**32 - 1, 0, "dead")


def test_we_never_send_more_than_one_mebibyte() -> None:
    with pytest.raises(LocalProtocolError):
        encode(ProgramOutput(bytes(1024 * 1024 + 1)))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Resize, b""),
        (Resize, bytes(3)),
        (Resize, bytes(5)),
        (StatusReply, bytes(14)),
        (Exit, bytes(3)),
        (StateFrame, b"[]"),
    ],
)
def test_a_payload_that_is_not_the_message_is_refused(kind: type[terminal.Frame], payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=kind.__name__):
        kind.read(payload)


def test_a_grace_that_does_not_fit_is_the_longest_that_does() -> None:
    assert terminal.Stop.within(1.5) == terminal.Stop(1500)
    assert terminal.Stop.within(1e12) == terminal.Stop(2**32 - 1)


def test_messages_are_equal_when_they_say_the_same() -> None:
    assert len({Input(b"a"), Input(b"a"), ProgramOutput(b"a")}) == 2
    assert repr(Resize(80, 24)) == "Resize(80, 24)"
    assert StateFrame(b'{"name": "idle"}').body == {"name": "idle"}
