"""Any text is a verdict or refused, and each answer has a schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import RemoteProtocolError
from treadle.wire.goal.verdicts import FORMS, ReviewVerdict, in_words, schema_of


@given(st.text('{}[]":, averdictpo\n`', max_size=60))
def test_any_text_is_a_verdict_or_refused(text: str) -> None:
    try:
        in_words(ReviewVerdict, text)
    except RemoteProtocolError:
        pass


@pytest.mark.parametrize("kind", FORMS)
def test_each_answer_has_a_schema_of_an_object_that_names_all_that_it_uses(kind: str) -> None:
    schema = schema_of(kind)
    assert schema["type"] == "object" and schema["properties"]
    used = {part.partition('"')[0] for part in json.dumps(schema).split("#/$defs/")[1:]}
    assert used <= set(schema.get("$defs", {}))
