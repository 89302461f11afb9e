"""The index leaves nothing out: with it and without it, the same overlaps are found."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination.surfaces import Index, Surface

TEXTS = (
    st.lists(
        st.sampled_from(["a", "b", "c", "*", "?", "**", "[ab]", "a*", "{a,b}", "..", ".", "", r"\a", "a#b"]),
        min_size=1,
        max_size=4,
    )
    .map("/".join)
    .filter(lambda text: text.partition("#")[0] not in ("", "/", "//", "///"))
)


@given(st.lists(TEXTS, max_size=12), TEXTS)
def test_whatever_overlaps_is_among_the_candidates(held: list[str], asked: str) -> None:
    index = Index((text, text) for text in held)
    near = set(index.near(Surface(asked).pattern))
    assert near <= set(held)
    assert {text for text in held if Surface(text).overlaps(Surface(asked))} <= near
