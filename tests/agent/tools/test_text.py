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


@pytest.mark.parametrize(
    ("data", "rest"),
    [(b"", b""), (b"a", b""), ("é".encode(), b""), (b"a\xc3", b"\xc3"), (b"\xf0\x9f\x98", b"\xf0\x9f\x98")],
)
def test_the_part_of_a_character_at_the_end_is_found(data: bytes, rest: bytes) -> None:
    assert files.cut_character(data) == rest


@given(value=st.text(max_size=20), cut=st.integers(0, 60))
def test_without_it_the_rest_is_whole(value: str, cut: int) -> None:
    data = value.encode()[:cut]
    data[: len(data) - len(files.cut_character(data))].decode()


def test_images_are_told_from_other_binaries() -> None:
    assert files.binary(b"\x89PNG\r\n\x1a\n") in files.SHOWN
    assert files.binary(b"%PDF-1.4") not in files.SHOWN
    assert files.binary(b"\xff\xfea\0b\0") is None
    assert files.binary(b"") is None


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


def test_what_a_file_with_an_encoding_cannot_hold_is_not_written() -> None:
    [_, windows] = files.decodings(b"a\xe9")
    assert windows.encode("bé") == b"b\xe9"
    with pytest.raises(UnicodeEncodeError):
        windows.encode("\udcff")


@pytest.mark.parametrize(
    ("data", "shown"), [("é".encode(), ("é", "utf-8")), (b"\xe9", ("é", "cp1252")), (b"\x81", ("\x81", "latin-1"))]
)
def test_lines_are_read_in_the_first_encoding_that_fits(data: bytes, shown: tuple[str, str]) -> None:
    assert files.readable(data) == shown


@pytest.mark.parametrize("whole", ["\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff"])
def test_a_character_is_cut_at_each_of_its_bytes_and_never_when_it_is_whole(whole: str) -> None:
    data = whole.encode()
    assert files.cut_character(b"a" + data) == b""
    for cut in range(1, len(data)):
        assert files.cut_character(b"a" + data[:cut]) == data[:cut]
    assert files.cut_character(b"\x80\x80\x80\x80") == b""
