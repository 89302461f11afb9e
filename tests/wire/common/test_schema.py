"""Our checker compared with an independent implementation of JSON Schema."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.common.schema import FLAG, NON_EMPTY, TEXT, Schema, faults, list_of, one_of, record, shown

INTEGER: Schema = {"type": "integer"}
SCHEMAS: list[Schema] = [
    TEXT,
    NON_EMPTY,
    INTEGER,
    {"type": "integer", "minimum": 1},
    FLAG,
    one_of("a", "b"),
    {"type": ["string", "null"]},
    {"type": ["integer", "null"], "minimum": 2},
    list_of(NON_EMPTY),
    list_of(INTEGER, 2),
    list_of(record({"a": TEXT})),
    record({"a": TEXT}, {"b": INTEGER}),
    record({"a": TEXT}, {"b": list_of(TEXT)}, closed=True),
    record({}),
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


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@given(value=VALUES)
def test_a_value_has_no_faults_exactly_when_the_schema_accepts_it(schema: Schema, value: Any) -> None:
    judge = jsonschema.Draft7Validator(schema)
    assert (not faults(schema, value)) == judge.is_valid(value)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_every_schema_is_a_legal_draft_07_schema(schema: Schema) -> None:
    jsonschema.Draft7Validator.check_schema(schema)


def test_a_shown_value_is_never_very_long_and_never_fails() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "(nested too deeply)"
    assert shown(float("inf")).startswith("(Out of range float values are not JSON")
    assert len(shown("x" * 10_000)) == 203
    assert shown({"a": [1]}) == '{"a":[1]}'
