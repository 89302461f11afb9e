"""Estimating tokens."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.sessions.tokens import estimate


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_has_an_estimate_that_grows_with_it(text: str) -> None:
    assert 0 <= estimate(text) <= len(text.encode("utf-8", "surrogatepass")) + 1
    assert estimate(text + "\nmore") >= estimate(text)
