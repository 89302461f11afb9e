"""JSON text: the standard library's, with every failure a ValueError."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.common import jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_it_writes_is_what_the_standard_library_writes(value: object) -> None:
    assert jsontext.dumps(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert jsontext.dumps(value, 2) == json.dumps(value, indent=2, ensure_ascii=False)
    assert jsontext.dumps(value, 2, sort_keys=True) == json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


@given(VALUES)
def test_what_it_wrote_it_reads(value: object) -> None:
    assert jsontext.loads(jsontext.dumps(value)) == value
    assert jsontext.loads(json.dumps(value, indent=1).encode()) == value


@given(st.text() | st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \t\n\r\\u'))
def test_it_accepts_and_refuses_what_the_standard_library_does(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        with pytest.raises(ValueError):
            jsontext.loads(text)
    else:
        assert jsontext.loads(text) == expected


@given(st.binary())
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        jsontext.loads(data)
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "", " ", "1 2", "{", '{"a":1,}', "[" * 100_000])
def test_what_is_not_one_json_value_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        jsontext.loads(text)


def test_a_lone_surrogate_is_written_so_that_it_can_be_encoded() -> None:
    written = jsontext.dumps({"a": "\ud800é"})
    assert json.loads(written.encode()) == {"a": "\ud800é"}


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError):
        jsontext.dumps([float("nan")])


def test_nesting_too_deep_to_write_is_a_value_error() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError):
        jsontext.dumps(value)


def test_half_a_surrogate_pair_is_mended_wherever_it_stands() -> None:
    assert jsontext.repaired({"caf\udce9": ["a\ud800b", ("é", 1, None)]}) == {"caf?": ["a?b", ["é", 1, None]]}


def test_the_mark_for_half_a_pair_can_be_chosen() -> None:
    assert jsontext.repaired(["a\ud83db", "\U0001f600"], jsontext.REPLACEMENT) == ["a\ufffdb", "\U0001f600"]


def test_only_escapes_of_half_a_pair_change_in_a_line() -> None:
    line = b'{"a":"\\ud83d \\ud83d\\ude00 \\\\ud83d \\u00e9 \\n \\ude00"}'
    assert jsontext.repaired_line(line) == b'{"a":"\\ufffd \\ud83d\\ude00 \\\\ud83d \\u00e9 \\n \\ufffd"}'
