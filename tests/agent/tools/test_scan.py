import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.scan import compile_pattern, matching_lines, read

PATTERNS = ["a", "^a", "a$", "a b", r"\s", r"a\s*b", "[^a]", "a*", "(?!a)b", "(?<!a)b", "^$", r"\bb\b", "a.b", r"b\Z"]


@given(text=st.text(alphabet="ab \n", max_size=40), pattern=st.sampled_from(PATTERNS), ignore_case=st.booleans())
def test_the_lines_found_are_those_that_match_when_asked_one_by_one(text: str, pattern: str, ignore_case: bool) -> None:
    compiled = compile_pattern(pattern, ignore_case)
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    wanted = [line for line in lines if compiled.search(line)] if text else []
    assert [text[start:end] for start, end in matching_lines(text, compiled)] == wanted


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\<foo\>", "a foo b", "foobar"),
        ("[[:digit:]]+x", "12x", "ax"),
        ("(?<year>20..)", "2026", "1999"),
        (r"x\\<", "x\\<", "x<"),
    ],
)
def test_what_ripgrep_understands_is_understood(pattern: str, yes: str, no: str) -> None:
    compiled = compile_pattern(pattern, False)
    assert compiled.search(yes) and not compiled.search(no)


@pytest.mark.parametrize("pattern", [r"\p{Greek}", "(", "[[a-z]--[aeiou]]"])
def test_what_python_would_misread_is_an_error(pattern: str) -> None:
    with pytest.raises(re.error):
        compile_pattern(pattern, False)


def test_files_are_read_whole_and_what_is_not_text_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "b").write_bytes(b"x" * 100_000 + b"\0")
    (tmp_path / "link").symlink_to("a")
    assert read(str(tmp_path / "a")) == b"one\ntwo\n"
    assert [read(str(tmp_path / name)) for name in ("b", "link", "none", ".")] == [None] * 4
    assert read("/proc/version")
