import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.web_fetch import to_text


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<a ", "<script>", "<!", "</", "&", "<pre>", "<a href=", "[", "<p>", "x<"]
)
def test_a_hostile_page_takes_linear_time(piece: str) -> None:
    assert isinstance(to_text(piece * (400_000 // len(piece))), str)


@given(
    st.lists(st.sampled_from(["<", ">", "/", "a", "script", "!--", "-->", " ", "&lt;", "\n", "pre", "é", "href='x'"]))
)
def test_anything_is_text(parts: list[str]) -> None:
    assert isinstance(to_text("".join(parts), "http://x/"), str)
