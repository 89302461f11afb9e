"""Counting tokens offline."""

import subprocess
import sys

import pytest

from treadle.errors import MissingExtra
from treadle.sessions import tokens
from treadle.sessions.tokens import count


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("antidisestablishmentarianism", 6), ("<|endoftext|>", 7)],
)
def test_known_texts_have_their_known_counts(text: str, tokens: int) -> None:
    assert count(text) == tokens


def test_text_that_cannot_be_encoded_is_counted_all_the_same() -> None:
    assert count("\ud800") > 0


def test_it_needs_no_network() -> None:
    code = """
import sys
def refuse(event, args):
    assert not event.startswith("socket."), event
sys.addaudithook(refuse)
from treadle.sessions.tokens import count
print(count("hello world"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    tokens._encoding.cache_clear()
    with pytest.raises(MissingExtra, match="tokens"):
        count("x")
