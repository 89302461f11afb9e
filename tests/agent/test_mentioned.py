"""Which files a text means with `@path`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.mentioned import mentioned


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


def test_nothing_mentioned_is_nothing_found() -> None:
    assert list(mentioned("plain words, a@b and 5 @ 3")) == []


@given(st.text(alphabet="@`~\"' a./\n", max_size=60))
def test_any_text_gives_an_answer(text: str) -> None:
    assert all(names and all(names) or names for names in mentioned(text))
