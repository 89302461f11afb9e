"""The bytes of the terminal wire, what may be sent when, and how wrong bytes are handled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.terminal import frames as terminal
from treadle.wire.terminal.connection import Connection
from treadle.wire.terminal.frames import (
    Exit,
    Input,
    Mode,
    ProgramOutput,
    Resize,
    StateFrame,
    StatusReply,
    UnknownFrame,
    encode,
)


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
        (terminal.ClientHello(3, 4), b"\x06\x00\x00\x00\x0c\x00\x00\x00\x03" + b"\x00" * 7 + b"\x04"),
        (terminal.Detail(), b"\x07\x00\x00\x00\x00"),
        (terminal.Stop(1500), b"\x08\x00\x00\x00\x04\x00\x00\x05\xdc"),
        (terminal.Type(1, b"ls"), b"\x09\x00\x00\x00\x03\x01ls"),
        (terminal.Explain(), b"\x0a\x00\x00\x00\x00"),
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
        (Exit, bytes(3), "Exit.* 4 bytes of payload, not 3"),
        (Exit, bytes(5), "Exit.* 4 bytes of payload, not 5"),
        (StatusReply, bytes(14), "StatusReply"),
        (Resize, b"", "Resize.* 4 bytes of payload, not 0"),
        (Resize, bytes(3), "Resize.* 4 bytes of payload, not 3"),
        (Resize, bytes(5), "4 bytes of payload, not 5"),
        (StateFrame, b"[]", "StateFrame.*not a JSON object"),
        (StateFrame, b"{", "StateFrame.*not a JSON object"),
        (StateFrame, b"[" * 100_000, "not a JSON object"),
    ],
)  # fmt: skip
def test_a_payload_that_is_too_short_or_too_long_is_named(
    kind: type[terminal.Frame], payload: bytes, words: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        kind.read(payload)
    assert terminal.SubmitPrompt.read(bytes(5)) == terminal.SubmitPrompt(0, 0, b"")


def client() -> Connection:
    end = Connection("client")
    assert end.receive(b"\0") == [Mode(0)]
    return end


def supervisor() -> Connection:
    end = Connection("supervisor")
    assert end.send(Mode(0)) == b"\0"
    return end


def test_the_mode_byte_is_not_framed_and_anything_but_zero_is_refused() -> None:
    assert encode(Mode(0)) == b"\0"
    with pytest.raises(RemoteProtocolError, match="mode 0x01"):
        Connection("client").receive(b"\x01")


def test_a_client_may_not_speak_before_it_has_read_the_mode_byte() -> None:
    with pytest.raises(LocalProtocolError, match="greeting"):
        Connection("client").send(terminal.StatusQuestion())


def test_an_unknown_type_is_a_value_to_skip_and_the_next_frame_counts() -> None:
    found = supervisor().receive(b"\x60\x00\x00\x00\x02??" + encode(terminal.StatusQuestion()))
    assert found == [UnknownFrame(0x60, b"??"), terminal.StatusQuestion()]


def test_orders_without_a_payload_are_taken_when_they_come_with_one() -> None:
    data = b"".join(terminal.frame(kind, b"extra") for kind in (terminal.STATUS, terminal.KILL, terminal.SUBSCRIBE))
    assert supervisor().receive(data) == [terminal.StatusQuestion(), terminal.Kill(), terminal.Subscribe()]


@pytest.mark.parametrize("payload", [b"", b"\0\0\0", b"\0\0\0\0\0"])
def test_a_resize_of_another_length_is_malformed(payload: bytes) -> None:
    [error] = supervisor().receive(terminal.frame(terminal.RESIZE, payload))
    assert isinstance(error, RemoteProtocolError)


def test_there_is_no_output_after_exit() -> None:
    end = supervisor()
    end.receive(encode(terminal.Subscribe()))
    end.send(Exit(0))
    with pytest.raises(LocalProtocolError, match="ended"):
        end.send(ProgramOutput(b"late"))
    assert end.receive(encode(terminal.StatusQuestion())) == [terminal.StatusQuestion()]


def test_a_record_that_is_not_an_object_is_malformed() -> None:
    for payload in (b"[]", b"{", b"[" * 100_000):
        [error] = client().receive(terminal.frame(terminal.DETAIL_RESP, payload))
        assert isinstance(error, RemoteProtocolError)


def test_the_end_of_the_bytes_is_right_between_frames_only() -> None:
    with pytest.raises(RemoteProtocolError, match="before its mode byte"):
        Connection("client").end()
    end = client()
    assert end.end() == []
    end.receive(encode(ProgramOutput(b"whole")) + b"\x81\x00")
    with pytest.raises(RemoteProtocolError, match="inside a frame"):
        end.end()


def test_one_end_does_not_say_what_is_the_others() -> None:
    with pytest.raises(LocalProtocolError, match="a client does not send ProgramOutput"):
        client().send(ProgramOutput(b"x"))
    with pytest.raises(LocalProtocolError, match="Output may not be sent while open"):
        supervisor().send(ProgramOutput(b"x"))
    end = client()
    assert end.kind("client", terminal.StatusQuestion()) is terminal.StatusQuestion


@given(data=st.binary(max_size=40), subscribed=st.booleans())
def test_the_shortest_way_of_a_frame_gives_what_the_long_one_does(data: bytes, subscribed: bool) -> None:
    ends = [client(), client()]
    for end in ends:
        if subscribed:
            end.send(terminal.Subscribe())
    whole = encode(ProgramOutput(data))
    assert ends[0].sole(terminal.OUTPUT, whole) == (data if subscribed else None)
    assert ends[0].sole(terminal.OUTPUT, whole[:-1]) is None
    assert ends[0].sole(terminal.OUTPUT, whole + b"\x81") is None
    assert ends[0].sole(terminal.OUTPUT, encode(Exit(0))) is None
    if subscribed:
        assert ends[1].receive(whole) == [ProgramOutput(data)]
        ends[0].receive(b"\x81\0\0")
        assert ends[0].sole(terminal.OUTPUT, whole) is None, "these bytes go on with a frame that has begun"


def test_a_frame_of_one_mebibyte_is_taken_and_one_byte_more_is_not() -> None:
    whole = b"\x01" + (1024 * 1024).to_bytes(4, "big") + bytes(1024 * 1024)
    assert supervisor().receive(whole) == [Input(bytes(1024 * 1024))]
    with pytest.raises(LocalProtocolError):
        terminal.encode(Input(bytes(1024 * 1024 + 1)))
    [error] = supervisor().receive(b"\x01" + (1024 * 1024 + 1).to_bytes(4, "big"))
    assert isinstance(error, RemoteProtocolError)
