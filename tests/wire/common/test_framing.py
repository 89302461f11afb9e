"""Whole, byte by byte or in any pieces, the result is the same; exceeding the cap costs only that line."""

import tracemalloc
from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import LineTooLong, RemoteProtocolError
from treadle.wire.common.framing import FrameSplitter, LineSplitter, MessageSplitter, frame


class Splitter(Protocol):
    def feed(self, data: bytes) -> list: ...  # type: ignore[type-arg]
    def end(self) -> bytes: ...


Result = tuple[list[object], bytes]


def split(splitter: Splitter, pieces: list[bytes]) -> Result:
    """What came out, with errors as their type and text, so that two runs can be compared."""
    found = [item for piece in pieces for item in splitter.feed(piece)]
    return [repr(item) if isinstance(item, Exception) else item for item in found], splitter.end()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[left:right] for left, right in zip(edges, edges[1:], strict=False)]


SPLITTERS: list[Callable[[], Splitter]] = [
    lambda: LineSplitter(20),
    lambda: FrameSplitter(20),
    lambda: MessageSplitter(20),
]
PIECES = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"{}",
        b"x" * 19,
        b"x" * 21,
        b"Content-Length: ",
        b"content-type:a\n",
        b"4\n\n",
        b"30\r\n\r\n",
        b"\0",
    ]
)
INPUT = st.one_of(st.binary(max_size=200), st.lists(PIECES | st.binary(max_size=9), max_size=20).map(b"".join))


@pytest.mark.parametrize("make", SPLITTERS, ids=["lines", "frames", "messages"])
@given(data=INPUT, places=st.lists(st.integers(0, 200), max_size=6))
def test_how_the_bytes_are_cut_up_makes_no_difference(
    make: Callable[[], Splitter], data: bytes, places: list[int]
) -> None:
    whole = split(make(), [data])
    assert split(make(), [data[at : at + 1] for at in range(len(data))]) == whole
    assert split(make(), cut(data, places)) == whole


@pytest.mark.parametrize("make", SPLITTERS, ids=["lines", "frames", "messages"])
@given(data=INPUT)
def test_any_bytes_give_values_within_the_cap_or_the_peers_error(make: Callable[[], Splitter], data: bytes) -> None:
    for item in make().feed(data):
        if isinstance(item, tuple):
            item = item[1]
        assert isinstance(item, RemoteProtocolError) or len(item) <= 20


# Lines...


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8))
def test_lines_come_back_as_they_were_joined(lines: list[bytes]) -> None:
    assert split(LineSplitter(20), [b"".join(line + b"\n" for line in lines)]) == (lines, b"")


def test_a_line_of_exactly_the_cap_passes_and_one_more_byte_does_not() -> None:
    assert LineSplitter(3).feed(b"abc\n") == [b"abc"]
    (error,) = LineSplitter(3).feed(b"abcd\n")
    assert isinstance(error, LineTooLong) and "3 bytes" in str(error)


def test_a_line_over_the_cap_costs_its_neighbours_nothing() -> None:
    before, error, after = LineSplitter(3).feed(b"one\ntoo long\ntwo\n")
    assert (before, type(error), after) == (b"one", LineTooLong, b"two")


def test_the_cap_is_told_before_the_line_ends_and_told_once() -> None:
    splitter = LineSplitter(3)
    assert [type(item) for item in splitter.feed(b"abcd")] == [LineTooLong]
    assert splitter.feed(b"efgh") == []
    assert splitter.feed(b"ij\nnext\nok\n")[1:] == [b"ok"]


def test_an_endless_line_takes_no_more_memory_than_the_cap() -> None:
    splitter = LineSplitter(100_000)
    tracemalloc.start()
    for _ in range(2000):
        splitter.feed(b"x" * 10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000


def test_a_long_line_fed_byte_by_byte_keeps_one_buffer() -> None:
    splitter = LineSplitter()
    tracemalloc.start()
    for _ in range(50_000):
        splitter.feed(b"x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert splitter.feed(b"\n") == [b"x" * 50_000]
    assert peak < 200_000


# Frames...


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=20)), max_size=8))
def test_frames_come_back_as_they_were_made(frames: list[tuple[int, bytes]]) -> None:
    assert split(FrameSplitter(20), [b"".join(frame(*each) for each in frames)]) == (frames, b"")


def test_a_frame_over_the_cap_is_skipped_without_being_kept() -> None:
    splitter = FrameSplitter(10)
    tracemalloc.start()
    (error,) = splitter.feed(b"\1" + (50_000_000).to_bytes(4, "big"))
    for _ in range(50):
        assert splitter.feed(bytes(1_000_000)) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, RemoteProtocolError) and "50000000 bytes" in str(error)
    assert splitter.feed(frame(2, b"next")) == [(2, b"next")]
    assert peak < 4_000_000


# Lines and Content-Length on one stream...


def test_both_framings_are_read_on_one_stream() -> None:
    stream = b'{"a":1}\n' + b'Content-Length: 9\r\n\r\n{"b":\n"2"' + b'{"c":3}\r\n' + b"CONTENT-LENGTH:2\n\n{}\n\n{}\n"
    assert split(MessageSplitter(), [stream]) == ([b'{"a":1}', b'{"b":\n"2"', b'{"c":3}\r', b"{}", b"{}"], b"")


@pytest.mark.parametrize("value", [b"-1", b"x", b"", b"1e3", b"9" * 5000, b"\xd9\xa3"])
def test_a_length_that_is_no_number_is_the_peers_error_and_the_next_line_is_read(value: bytes) -> None:
    error, message = MessageSplitter().feed(b"Content-Length: " + value + b"\r\n\r\n{}\n")
    assert isinstance(error, RemoteProtocolError) and "Content-Length" in str(error)
    assert message == b"{}"


def test_a_body_over_the_cap_is_skipped_and_the_next_message_is_read() -> None:
    stream = b"Content-Length: 30\n\n" + b"x" * 30 + b"Content-Length: 2\n\n{}"
    error, message = MessageSplitter(20).feed(stream)
    assert isinstance(error, LineTooLong) and message == b"{}"


def test_endless_headers_are_an_error() -> None:
    found = MessageSplitter().feed(b"Content-Length: 2\n" + b"X-Filler: abcdefgh\n" * 600)
    assert isinstance(found[0], LineTooLong)
