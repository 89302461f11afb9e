"""What may be sent when on the terminal wire, and how wrong bytes are handled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.terminal import frames as terminal
from treadle.wire.terminal.connection import Connection
from treadle.wire.terminal.frames import Exit, Input, Mode, ProgramOutput, UnknownFrame, encode


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


def test_a_frame_of_one_mebibyte_is_taken_and_one_byte_more_is_not() -> None:
    whole = b"\x01" + (1024 * 1024).to_bytes(4, "big") + bytes(1024 * 1024)
    assert supervisor().receive(whole) == [Input(bytes(1024 * 1024))]
    [error] = supervisor().receive(b"\x01" + (1024 * 1024 + 1).to_bytes(4, "big"))
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


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_any_bytes_in_any_pieces_give_the_same_messages(data: bytes, cuts: list[int]) -> None:
    whole = supervisor().receive(data)
    end, found = supervisor(), []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for left, right in zip(edges, edges[1:], strict=False):
        found += end.receive(data[left:right])
    assert [str(message) for message in found] == [str(message) for message in whole]


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
