"""Estimating tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.sessions.tokens import estimate

REAL = [
    ("", 0),
    ("hello world", 2),
    ("antidisestablishmentarianism", 6),
    ("Все люди рождаются свободными и равными в своем достоинстве и правах.", 35),
    ("人人生而自由，在尊严和权利上一律平等。", 21),
    ("0123456789" * 10, 34),
    ('{"type":"question","from":"coder","msg_id":"m1","question":"which port?"}', 21),
    ("Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung.", 26),
]
"""Texts and what a real tokenizer (cl100k) made of them."""


@pytest.mark.parametrize(("text", "tokens"), REAL)
def test_an_estimate_is_near_what_a_tokenizer_counts(text: str, tokens: int) -> None:
    assert abs(estimate(text) - tokens) <= max(1, tokens / 5)


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_has_an_estimate_that_grows_with_it(text: str) -> None:
    assert 0 <= estimate(text) <= len(text.encode("utf-8", "surrogatepass")) + 1
    assert estimate(text + "\nmore") >= estimate(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("abcdefg " * 8, 9),
        (" abcdefgh" * 8, 10),
        ("(ab" * 10, 12),
        ("ab" + " ab" * 9, 10),
        ("a\u00e9" * 20, 20),
        ("\u00e9" * 20, 11),
        ("\u00e9\u4eba" * 20, 28),
        ("\u4eba" * 20, 23),
        (" ++++++++++", 3),
        ("a\n\nb", 3),
    ],
    ids=["short", "long", "marked", "spaced", "accented", "two bytes", "two and three", "three", "marks", "lines"],
)
def test_each_kind_of_text_has_its_own_rate(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


def test_text_that_cannot_be_encoded_is_estimated_all_the_same() -> None:
    assert estimate("\ud800") > 0
