import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.records import dumps, timestamp

values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_what_is_written_reads_back_the_same_on_one_line(value: Any) -> None:
    line = dumps(value)
    assert json.loads(line) == value
    assert "\n" not in line


def test_an_odd_file_name_does_not_break_the_line() -> None:
    assert json.loads(dumps(["caf\udce9"]).encode()) == ["caf?"]


def test_a_timestamp_is_utc_with_milliseconds() -> None:
    assert timestamp(1_700_000_000.1234) == "2023-11-14T22:13:20.123Z"
