"""Any strings at all make one line of JSON."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.common.jsonline import json_line

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@given(VALUES)
def test_every_value_is_one_line_that_reads_back_but_for_lone_surrogates(value: Any) -> None:
    line = json_line(value)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    read = json.loads(line.decode("utf-8"))
    assert read == json.loads(json.dumps(value).encode().decode()) or "\\ud" in json.dumps(value)


def test_a_lone_surrogate_does_not_stop_the_line() -> None:
    assert json_line({"text": "a\ud800b"}) == b'{"text":"a?b"}\n'
