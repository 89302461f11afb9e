"""Faults of a line that decoding into types does not find."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.sidecar.connection import repaired_line, repeated_field, repeated_name, unusable

JSON = st.recursive(
    st.none() | st.booleans() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"t":"event","t":"final"}', "t"),
        (b'{"t":"event","event":{"a":1,"a":2}}', None),
        (b'{"t":"event","x":[{"t":1}],"y":{"t":2}}', None),
        (b'{"\\u0074":1,"t":2}', "t"),
        (b'{"first":1,"t":2,"t":3}', "t"),
        (b"[1]", None),
    ],
)
def test_only_the_outermost_object_may_not_say_a_name_twice(line: bytes, name: str | None) -> None:
    assert repeated_field(line) == name


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'{"a":{"b":[{"c":1,"c":2}]}}', "c"),
        (b'{"a":1,"a":1}', "a"),
        (b'{"first":1,"a":1,"a":2}', "a"),
        (b'{"a":{"b":1},"b":[]}', None),
        (b"[]", None),
    ],
)
def test_a_name_that_is_there_twice_is_found_at_any_depth(data: bytes, name: str | None) -> None:
    assert repeated_name(data) == name


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        repeated_field(b'{"n":' + b"9" * 5000 + b"}")


@given(st.dictionaries(st.text(), JSON))
def test_half_a_pair_is_replaced_and_nothing_else_changes(tree: dict[str, object]) -> None:
    tree.pop("half", None)
    line = json.dumps({**tree, "half": "a\ud83cb"}, ensure_ascii=True).encode()
    assert json.loads(repaired_line(line)) == {**tree, "half": "a?b"}


@pytest.mark.parametrize("line", [b'{"a":1}', b'{"a":"\\ud83c","n":NaN}', b'{"a":"\\ud83c"', b'"\\\\ud83c"'])
def test_what_is_not_half_a_pair_is_not_mended(line: bytes) -> None:
    with pytest.raises(ValueError):
        repaired_line(line)


def test_a_receipt_needs_ids_and_times_that_can_be_read() -> None:
    meta = SAMPLE_RECEIPT.meta
    assert unusable(meta) is None
    for change in ({"run_id": "run-1"}, {"work_order_id": ""}, {"started_at": "soon"}, {"finished_at": "9999"}):
        assert "its receipt is not valid" in (unusable(replace(meta, **change)) or "")
