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
