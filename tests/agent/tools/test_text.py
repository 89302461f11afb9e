import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools import text


@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda value: b"\xff\xfe" + value.encode("utf-16-le")))
def test_every_reading_of_any_bytes_gives_back_those_bytes(data: bytes) -> None:
    for reading in text.decodings(data):
        assert reading.encode(reading.text) == data


@given(st.binary(max_size=60))
def test_any_lines_can_be_read(data: bytes) -> None:
    assert isinstance(text.readable(data)[0], str)


@pytest.mark.parametrize(
    ("data", "rest"),
    [(b"", b""), (b"a", b""), ("é".encode(), b""), (b"a\xc3", b"\xc3"), (b"\xf0\x9f\x98", b"\xf0\x9f\x98")],
)
def test_the_part_of_a_character_at_the_end_is_found(data: bytes, rest: bytes) -> None:
    assert text.cut_character(data) == rest


@given(value=st.text(max_size=20), cut=st.integers(0, 60))
def test_without_it_the_rest_is_whole(value: str, cut: int) -> None:
    data = value.encode()[:cut]
    data[: len(data) - len(text.cut_character(data))].decode()


def test_images_are_told_from_other_binaries() -> None:
    assert text.binary(b"\x89PNG\r\n\x1a\n") in text.SHOWN
    assert text.binary(b"%PDF-1.4") not in text.SHOWN
    assert text.binary(b"\xff\xfea\0b\0") is None
    assert text.binary(b"") is None
