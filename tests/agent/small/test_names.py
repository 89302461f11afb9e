from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.small import undefined


@given(st.text())
def test_any_text_is_looked_at_without_failing(text: str) -> None:
    undefined(text)
