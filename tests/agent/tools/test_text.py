import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools import files


@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda value: b"\xff\xfe" + value.encode("utf-16-le")))
def test_every_reading_of_any_bytes_gives_back_those_bytes(data: bytes) -> None:
    for reading in files.decodings(data):
        assert reading.encode(reading.text) == data


@given(st.binary(max_size=60))
def test_any_lines_can_be_read(data: bytes) -> None:
    assert isinstance(files.readable(data)[0], str)


@given(value=st.text(max_size=20), cut=st.integers(0, 60))
def test_without_it_the_rest_is_whole(value: str, cut: int) -> None:
    data = value.encode()[:cut]
    data[: len(data) - len(files.cut_character(data))].decode()


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"BM plain words", None),
        (b"BM\0\0", "a BMP image"),
        (b"BM\xff\xff", "a BMP image"),
        (b"GIF89a", "a GIF image"),
        (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "a WebP image"),
        (b"RIFFxxxxWAVE", None),
        (b"LIFFxxxxWEBP", None),
        (b"xxxxftypheic", "an image or video"),
        (b"text\0more", "a binary file"),
        (b"\xfe\xff\0a", None),
        (b"\xef\xbb\xbf\0a", "a binary file"),
        ("é".encode()[:1], None),
    ],
)
def test_a_file_is_known_by_how_it_begins(start: bytes, what: str | None) -> None:
    assert files.binary(start) == what


@pytest.mark.parametrize(
    ("data", "readings"),
    [
        (b"\xff\xfea\0", [("a", "utf-16-le", b"\xff\xfe")]),
        (b"\xfe\xff\0a", [("a", "utf-16-be", b"\xfe\xff")]),
        (b"\xff\xfea", []),
        (b"\xef\xbb\xbfa", [("a", "utf-8", b"\xef\xbb\xbf")]),
        (b"a\xe9", [("a\udce9", "utf-8", b""), ("aé", "cp1252", b"")]),
        (b"a\x81", [("a\udc81", "utf-8", b""), ("a\x81", "latin-1", b"")]),
    ],
)
def test_a_file_is_read_by_its_mark_or_the_likeliest_way_first(
    data: bytes, readings: list[tuple[str, str, bytes]]
) -> None:
    assert [(one.text, one.encoding, one.mark) for one in files.decodings(data)] == readings
