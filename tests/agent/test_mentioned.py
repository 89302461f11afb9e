"""Which files a text means with `@path`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.project import mentioned


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("look at @notes.txt", ["notes.txt"]),
        ("@a.py and @b/c.py: compare", ["a.py", "b/c.py:"]),
        ('read @"two words.md" now', ["two words.md"]),
        ("(see @a.py)", ["a.py)"]),
        ("mail me@example.org", []),
        ("a decorator: `@cache` and\n```\n@property\n```", []),
        ("@", []),
    ],
)
def test_an_at_sign_before_a_path_mentions_it(text: str, first: list[str]) -> None:
    assert [names[0] for names in mentioned(text)] == first


def test_punctuation_after_a_path_may_be_part_of_it_or_not() -> None:
    assert list(mentioned("(see @a.py), @b and @'c!")) == [("a.py),", "a.py"), ("b",), ("'c!", "'c")]
    assert list(mentioned('@"two words.md." ~~~ @no')) == [("two words.md.",)]


def test_nothing_mentioned_is_nothing_found() -> None:
    assert list(mentioned("plain words, a@b and 5 @ 3")) == []


@given(st.text(alphabet="@`~\"' a./\n", max_size=60))
def test_any_text_gives_an_answer(text: str) -> None:
    assert all(len(names) in (1, 2) and names[0] for names in mentioned(text))
