"""What Claude Code asks a person, and how the answer goes back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.drivers.claude.gate import options_of, text_of


@given(st.recursive(st.none() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)))
def test_any_arguments_can_be_shown(args: Any) -> None:
    for each in (args, {"questions": args}, {"questions": [args]}):
        assert isinstance(text_of(each), str) and isinstance(options_of(each), tuple)
