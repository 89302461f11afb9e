"""Plain words: what people read says who and what, in words that a new reader understands at once."""

import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OUT = {
    "somebody": "say who: a person, another agent, another process; else someone",
    "nobody": "no one, or say what is not there",
    "whoever": "say who it is",
    "mend": "fix, or repair",
    "mends": "fixes",
    "mended": "fixed, or repaired",
    "doer": "executor",
    "wish": "request, setting",
    "wishes": "requests, options",
}
WORDS = re.compile(rf"\b({'|'.join(OUT)})\b", re.IGNORECASE)
VALUES = re.compile(
    r"^(nobody|mend)$"  # `by` of a denial, and what a part of the profile for small models was called
    r"|fleet\.in\.wish"  # a subject of the fleet's engine
    r"|(?<=, )nobody(?=[,.])"  # the values of `by`, listed
)


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    found = [ROOT / name for name in listed.stdout.splitlines()]
    return found or [path for pattern in patterns for path in ROOT.glob(pattern)]


def odd(text: str) -> list[str]:
    return [found.group() for found in WORDS.finditer(VALUES.sub("", text))]


def texts(path: Path) -> list[tuple[int, str]]:
    """The comments, docstrings, messages and names of a module, with their lines."""
    kinds = (tokenize.COMMENT, tokenize.STRING, tokenize.NAME)
    with tokenize.open(path) as file:
        tokens = [each for each in tokenize.generate_tokens(file.readline) if each.type in kinds]
    return [
        (each.start[0], each.string.strip("'\"") if each.type == tokenize.STRING else each.string) for each in tokens
    ]


def test_the_program_says_it_in_plain_words() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}: {OUT[word.lower()]}"
        for path in tracked("src/treadle/**/*.py")
        for line, text in texts(path)
        for word in odd(text.replace("_", " "))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pattern", ["README.md", "CONTRIBUTING.md", "docs/**/*.md"])
def test_the_docs_say_it_in_plain_words(pattern: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {word}: {OUT[word.lower()]}"
        for path in tracked(pattern)
        for word in odd(re.sub(r"`[^`\n]*`", "", path.read_text()))
    ]
    assert not wrong, "\n".join(wrong)


def test_an_odd_word_is_found_and_a_value_of_a_wire_is_not() -> None:
    assert odd("Nobody can be asked; somebody mends it.") == ["Nobody", "somebody", "mends"]
    assert odd("nobody") == odd("fleet.in.wish.cancel") == odd("a rule, nobody, deadline") == []
