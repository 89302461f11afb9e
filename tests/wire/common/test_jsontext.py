"""JSON text, lines, numbers and images in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import gif, jpeg, png, webp
from treadle.wire.common import jsontext
from treadle.wire.common.connection import json_line
from treadle.wire.common.images import data_url, decoded, encoded, media_type
from treadle.wire.common.jsontext import amount, count, timestamp

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


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))

LINE_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@given(LINE_VALUES)
def test_every_value_is_one_line_that_reads_back_but_for_lone_surrogates(value: Any) -> None:
    line = json_line(value)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    read = json.loads(line.decode("utf-8"))
    assert read == json.loads(json.dumps(value).encode().decode()) or "\\ud" in json.dumps(value)


def test_a_lone_surrogate_does_not_stop_the_line() -> None:
    assert json_line({"text": "a\ud800b"}) == b'{"text":"a?b"}\n'


@pytest.mark.parametrize(
    ("value", "number"),
    [*((each, each) for each in (0, 7, 10**30)), *((each, 0) for each in (True, False, -1, 1.0, "7", None, [], {}))],
)
def test_a_count_is_a_whole_number_and_what_is_none_is_0(value: Any, number: int) -> None:
    assert count(value) == number and type(count(value)) is int


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0.0), (0.5, 0.5), (3, 3.0), *((each, None) for each in (True, False, -0.1, float("nan"), "1", None))],
)
def test_an_amount_may_be_a_fraction_and_what_is_none_is_unknown_and_never_0(value: Any, number: float | None) -> None:
    assert amount(value) == number


def test_a_timestamp_is_utc_with_milliseconds() -> None:
    assert timestamp(1_700_000_000.1234) == "2023-11-14T22:13:20.123Z"


@given(st.binary())
def test_what_is_encoded_comes_back(data: bytes) -> None:
    assert decoded(encoded(data)) == data and "\n" not in encoded(data)


@pytest.mark.parametrize("text", ["a", "é", None, 7, ["aGk="]])
def test_what_is_not_base64_is_nothing(text: object) -> None:
    assert decoded(text) == b""


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (jpeg(), "image/jpeg"),
        (gif(), "image/gif"),
        (webp(), "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
    ],
)
def test_the_kind_of_an_image_or_document(data: bytes, kind: str) -> None:
    assert media_type(data) == kind and data_url(data) == f"data:{kind};base64,{encoded(data)}"
