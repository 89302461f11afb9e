"""When a reply is taken for one that cannot stop."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.small import endless


@given(st.text())
def test_any_text_has_an_answer_which_is_part_of_it(text: str) -> None:
    assert endless(text) in text
