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


def test_nesting_too_deep_to_write_is_a_value_error() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError):
        jsontext.dumps(value)


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


@given(st.binary())
def test_what_is_encoded_comes_back(data: bytes) -> None:
    assert decoded(encoded(data)) == data and "\n" not in encoded(data)


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
