from hypothesis import example, given
from hypothesis import strategies as st

from treadle.wire.models.sse import EventDecoder, decoder_for


def decode(*chunks: bytes) -> list[bytes]:
    decoder = EventDecoder()
    return [data for chunk in chunks for data in decoder.feed(chunk)] + decoder.end()


def by_the_book(stream: bytes) -> list[bytes]:
    """The specification, line by line, in the slowest way; an unfinished last event counts."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[bytes] = []
    data: list[bytes] = []
    for line in [*text.split(b"\n"), b""]:
        if not line:
            if data:
                events.append(b"\n".join(data))
            data = []
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
    return events


LINES = st.sampled_from(
    [b"data: x", b"data:", b"data", b"data:  {", b": c", b"event: e", b"id: 1", b"junk", b"", "data: ü".encode()]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 300), max_size=30), st.booleans())
@example([(b"data: x", b"\r"), (b"", b"\n")], [8], False)
def test_any_stream_in_any_pieces_is_read_by_the_book(
    lines: list[tuple[bytes, bytes]], cuts: list[int], marked: bool
) -> None:
    stream = (b"\xef\xbb\xbf" if marked else b"") + b"".join(line + end for line, end in lines)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in zip(places, places[1:], strict=False)]
    assert decode(*chunks) == decode(stream) == by_the_book(stream)
    assert decode(*[stream[at : at + 1] for at in range(len(stream))]) == by_the_book(stream)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_arbitrary_bytes_are_survived(chunks: list[bytes]) -> None:
    assert decode(*chunks) == decode(b"".join(chunks)) == by_the_book(b"".join(chunks))


def test_the_cap_is_for_one_event_and_not_for_the_stream() -> None:
    decoder = EventDecoder(cap=1000)
    for _ in range(100):
        assert decoder.feed(b"data: " + b"x" * 500 + b"\n\n") == [b"x" * 500]


def test_the_place_in_a_stream_is_known_and_kept_for_the_one_that_continues_it() -> None:
    decoder = EventDecoder()
    assert decoder.feed(b"id: 7\nretry: 20\ndata:\n\ndata: x\n\nevent: message\ndata: y\nid: 8\n\n") == [
        b"",
        b"x",
        b"y",
    ]
    again = decoder.again()
    assert (again.last_id, again.retry, again.feed(b"data: z\n\n")) == (b"8", 20, [b"z"])


def test_a_place_with_a_nul_and_a_time_that_is_no_number_are_passed_over() -> None:
    decoder = EventDecoder()
    decoder.feed(b"id: 7\nretry: 5\ndata: x\n\nid: 8\0\nretry: soon\nx: 3\ndata: y\n\n")
    assert (decoder.last_id, decoder.retry) == (b"7", 5)
    assert (
        EventDecoder().retry is None
        and decoder.end() == []
        and isinstance(decoder_for("text/event-stream"), EventDecoder)
    )
