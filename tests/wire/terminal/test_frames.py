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


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (terminal.ClientHello(3, 4), b"\x06\x00\x00\x00\x0c\x00\x00\x00\x03" + b"\x00" * 7 + b"\x04"),
        (terminal.Detail(), b"\x07\x00\x00\x00\x00"),
        (terminal.Stop(1500), b"\x08\x00\x00\x00\x04\x00\x00\x05\xdc"),
        (terminal.Type(1, b"ls"), b"\x09\x00\x00\x00\x03\x01ls"),
        (terminal.Explain(), b"\x0a\x00\x00\x00\x00"),
        (terminal.Rename(b"x"), b"\x0b\x00\x00\x00\x01x"),
        (terminal.SubmitPrompt(2, 258, b"hi"), b"\x0c\x00\x00\x00\x07\x02\x00\x00\x01\x02hi"),
        (terminal.CancelPrompt(7), b"\x0d\x00\x00\x00\x04\x00\x00\x00\x07"),
        (terminal.Gap(5), b"\x84\x00\x00\x00\x08" + b"\x00" * 7 + b"\x05"),
        (StateFrame(b"{}"), b"\x85\x00\x00\x00\x02{}"),
        (terminal.DetailReply(b"{}"), b"\x87\x00\x00\x00\x02{}"),
        (terminal.Stopped(b"{}"), b"\x88\x00\x00\x00\x02{}"),
        (terminal.Size(80, 24), b"\x89\x00\x00\x00\x04\x00\x50\x00\x18"),
        (terminal.Leader(1), b"\x8a\x00\x00\x00\x01\x01"),
        (terminal.TypedReply(b"{}"), b"\x8b\x00\x00\x00\x02{}"),
        (terminal.Explained(b"{}"), b"\x8c\x00\x00\x00\x02{}"),
        (terminal.Renamed(b"{}"), b"\x8d\x00\x00\x00\x02{}"),
        (terminal.Prompted(b"{}"), b"\x8e\x00\x00\x00\x02{}"),
        (terminal.UnknownFrame(0x70, b"x"), b"\x70\x00\x00\x00\x01x"),
        (terminal.Mode(0), b"\x00"),
    ],
)  # fmt: skip
def test_each_frame_is_read_as_it_was_written(message: terminal.Frame, data: bytes) -> None:
    assert encode(message) == data
    if not isinstance(message, terminal.Mode | terminal.UnknownFrame):
        assert type(message).read(data[5:]) == message


def test_a_hello_is_answered_with_offsets_and_a_size() -> None:
    reply = terminal.HelloReply(2, 5, 6, 7, 80, 24)
    assert terminal.HelloReply.read(encode(reply)[5:]) == reply and reply.values() == (2, 5, 6, 7, 80, 24)
    assert terminal.Exit.read(b"\xff\xff\xff\xff") == Exit(-1) and terminal.Kill.read(b"more") == terminal.Kill()


@pytest.mark.parametrize(
    ("kind", "payload", "words"),
    [
        (terminal.Type, b"", "at least 1 byte"),
        (terminal.SubmitPrompt, bytes(4), "at least 5 bytes of payload, not 4"),
        (Exit, bytes(5), "4 bytes of payload, not 5"),
        (Resize, bytes(5), "4 bytes of payload, not 5"),
        (StateFrame, b"{", "not a JSON object"),
        (StateFrame, b"[" * 100_000, "not a JSON object"),
    ],
)  # fmt: skip
def test_a_payload_that_is_too_short_or_too_long_is_named(
    kind: type[terminal.Frame], payload: bytes, words: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        kind.read(payload)
    assert terminal.SubmitPrompt.read(bytes(5)) == terminal.SubmitPrompt(0, 0, b"")


def test_exactly_a_mebibyte_may_be_sent_and_a_message_is_another_when_it_says_something_else() -> None:
    assert len(encode(ProgramOutput(bytes(1024 * 1024)))) == 1024 * 1024 + 5
    assert Input(b"a") != Input(b"b") and Input(b"a") != ProgramOutput(b"a") and hash(Input(b"a")) == hash(Input(b"a"))
    with pytest.raises(ValueError):
        Resize(1)
    assert StatusReply.of(1, 2, True, 9, 3).state_name == "unknown" and StatusReply.of(1, 2, True, 9, 3).alive == 1
