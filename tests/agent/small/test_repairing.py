"""Edits are made where they are meant."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.small import exact_place


@given(st.text(alphabet="ab \n\t"), st.text(alphabet="ab \n\t"))
def test_what_is_found_is_in_the_file(text: str, old: str) -> None:
    place = exact_place(text, old)
    assert place is None or place in text
