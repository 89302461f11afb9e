"""Every shape's own check against an independent implementation of JSON Schema, which is the judge."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.heimdall.shapes import Flag, Integer, ListOf, Maybe, OneOf, Record, Shape, Text, shown

SHAPES: list[Shape] = [
    Text(),
    Text(1),
    Integer(),
    Integer(1),
    Flag(),
    OneOf("a", "b"),
    Maybe(Text()),
    Maybe(Integer(2)),
    ListOf(Text(1)),
    ListOf(Integer(), 2),
    Record({"a": Text()}, {"b": Integer()}),
    Record({"a": Text()}, {"b": ListOf(Text())}, closed=True),
    Record({}),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([1.0, 1.5, -0.5, 1e300])
    | st.sampled_from(["", "a", "b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.schema))
@given(value=VALUES)
def test_a_value_has_no_faults_exactly_when_the_schema_accepts_it(shape: Shape, value: Any) -> None:
    judge = jsonschema.Draft7Validator(shape.schema)
    assert (not shape.faults(value)) == judge.is_valid(value)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.schema))
def test_every_schema_is_a_legal_draft_07_schema(shape: Shape) -> None:
    jsonschema.Draft7Validator.check_schema(shape.schema)


def test_a_fault_reads_as_a_sentence_after_the_field_name() -> None:
    shape = Record({"name": Text(1), "ids": ListOf(Integer(1), 1)}, closed=True)
    assert shape.faults({"ids": ["x"], "more": 1}) == [
        "missing required field: name",
        "ids must be an array in which each item is an integer of at least 1, with at least 1",
        "unknown field: more",
    ]


def test_a_shown_value_is_never_very_long_and_never_fails() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "(nested too deeply)"
    assert shown(float("inf")) == "(inf is not JSON)"
    assert len(shown("x" * 10_000)) == 203
    assert shown({"a": [1]}) == '{"a":[1]}'
