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


NAMES_OUT = {
    "told": "reported, notice, payload, instructions: what it is",
    "untold": "unreported",
    "said": "message, reply, answer, output: what it is",
    "unsaid": "notes that are still to be reported",
    "kept": "stored, saved, retained, remaining; enforced, for a rule",
    "unkept": "not enforced",
    "seat": "binding",
    "seats": "bindings",
    "stranger": "foreign owner",
}
"""Parts of names: each of them has meant a dozen things."""
NAMES_IN = {
    "AssistantSaid": "the name of the event in the sidecar protocol's published schemas",
}
"""What others know by this name. A stored or sent key goes in `msgspec.field(name=...)`, not here."""
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
ANY_PART = re.compile("|".join(NAMES_OUT), re.IGNORECASE)


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    found = [ROOT / name for name in listed.stdout.splitlines()]
    return found or [path for pattern in patterns for path in ROOT.glob(pattern)]


def odd(text: str) -> list[str]:
    return [found.group() for found in WORDS.finditer(VALUES.sub("", text))]


def odd_parts(name: str) -> list[str]:
    """The parts of a name, in any of its forms, that say too little."""
    return [] if name in NAMES_IN else [part for part in map(str.lower, PARTS.findall(name)) if part in NAMES_OUT]


def texts(path: Path) -> list[tuple[int, str]]:
    """The comments, docstrings, messages and names of a module, with their lines."""
    if not WORDS.search(path.read_text().replace("_", " ")):
        return []  # most modules need not be cut into tokens, which takes long
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


def test_names_say_what_they_hold() -> None:
    wrong = []
    for path in tracked("src/treadle/**/*.py", "src/treadle/**/*.pyi"):
        with tokenize.open(path) as file:
            read = tokenize.generate_tokens(file.readline) if ANY_PART.search(path.read_text()) else ()
            names = {each.string: each.start[0] for each in read if each.type == tokenize.NAME}
        where = path.relative_to(ROOT)
        wrong += [f"{where}: {part}: a module's name" for part in odd_parts(path.stem)]
        wrong += [f"{where}:{at}: {name}: {NAMES_OUT[part]}" for name, at in names.items() for part in odd_parts(name)]
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


def test_a_name_is_read_by_its_parts() -> None:
    found = [odd_parts(name) for name in ("_told", "MOST_KEPT", "KeptSession", "said_in", "_unsaid", "seatsTaken")]
    assert found == [["told"], ["kept"], ["kept"], ["said"], ["unsaid"], ["seats"]]
    assert [odd_parts(name) for name in ("keeper", "retold", "AssistantSaid", "SEATTLE", "notice")] == [[]] * 5
