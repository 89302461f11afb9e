"""Matching is checked against examples that a person would write, overlap against every short path."""

import itertools
import subprocess
import sys

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.policy import patterns
from treadle.policy.patterns import match, overlaps

MATCHES = [
    ("*.py", "a.py", True),
    ("*.py", "src/a.py", False),
    ("**/*.py", "a.py", True),
    ("**/*.py", "src/deep/a.py", True),
    ("src/**/test_?.py", "src/test_a.py", True),
    ("src/**/test_?.py", "src/x/y/test_a.py", True),
    ("src/**/test_?.py", "src/test_ab.py", False),
    ("src/**", "src/a/b", True),
    ("src/**", "src", False),
    ("src", "src/a/b", True),
    ("src", "srcs", False),
    ("src/", "src/a", True),
    ("build*/", "build-x/a/b", True),
    ("build*", "build-x/a", False),
    ("src/**.py", "src/a/b.py", True),
    ("src/**.py", "src/b.py", True),
    ("a**b", "a/x/b", True),
    (".env*", ".env.local", True),
    ("{src,lib}/*.{c,h}", "lib/x.h", True),
    ("{src,lib}/*.{c,h}", "lib/x.o", False),
    ("{a,{b,c}d}", "cd", True),
    ("{a}", "{a}", True),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[!a-c]x", "dx", True),
    ("[]x]", "]", True),
    ("[a", "[a", True),
    ("?", "/", False),
    ("*", ".", False),
    (".", "anything/below", True),
    (".", ".", True),
    (".", "../beside", False),
    ("..", "../beside", True),
    ("../x", "../x/y", True),
    ("**", "/absolute", False),
    ("/**", "/absolute", True),
    ("/*", "/", False),
    ("/", "/any/thing", True),
    ("./src//lib/../*.py", "src/a.py", True),
    ("src/*.py", "./src//x/../a.py", True),
    ("a/**/../b", "b", True),
    ("a/**/../b", "a/b", True),
    ("a/**/../b", "a/x/b", True),
    (r"\*", "*", True),
    (r"\*", "x", False),
    ("a\nb*", "a\nbc", True),
    ("é?", "éß", True),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), MATCHES)
def test_a_pattern_stands_for_these_paths(pattern: str, path: str, expected: bool) -> None:
    assert match(pattern, path) is expected


OVERLAPS = [
    ("src/*.py", "src/a*", True),
    ("src/a*.py", "src/b*.py", False),
    ("src", "src/lib/x.py", True),
    ("src/api", "src/apix", False),
    ("src/a?", "src/*b", True),
    ("src/**", "src", True),
    ("src/**/x.py", "src/a/**", True),
    ("**/x.py", "src/*.md", False),
    ("./a", "a//", True),
    ("a/../b", "b/c", True),
    ("{a,b}/*", "{b,c}/x", True),
    ("{a,b}/*", "{c,d}/x", False),
    ("[ab]", "[bc]", True),
    ("[ab]", "[!ab]", False),
    ("*.py", "*.md", False),
    ("test_*", "*_test", True),
    ("a*a", "a", False),
    ("/x", "x", False),
    ("?.", ".?", False),
    ("[z-a]/x", "**", False),
    ("{[z-a],b}/x", "**", True),
]


@pytest.mark.parametrize(("a", "b", "expected"), OVERLAPS)
def test_two_patterns_overlap_when_some_path_is_in_both(a: str, b: str, expected: bool) -> None:
    assert overlaps(a, b) is expected
    assert overlaps(b, a) is expected


NAMES = ["a", "b", "aa", "ab", "ba", "bb"]
SMALL_PATHS = ["/".join(names) for size in range(1, 6) for names in itertools.product(NAMES, repeat=size)]
SMALL_NAMES = ["".join(chars) for size in range(1, 6) for chars in itertools.product("ab.", repeat=size)]
part = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "**"]), min_size=1, max_size=2).map("".join)
small = st.lists(st.one_of(part, st.sampled_from(["**", "{a,b}", "{a,*b}", ".", "a/.."])), min_size=1, max_size=2)
dotted = st.lists(st.sampled_from(["a", ".", "*", "?", "[!a]"]), min_size=1, max_size=3).map("".join)


def tried(a: str, b: str, paths: list[str]) -> bool:
    one, other = patterns.parse(a).regex.fullmatch, patterns.parse(b).regex.fullmatch
    return any(one(path) and other(path) for path in paths)


@given(small.map("/".join), small.map("/".join))
@settings(max_examples=300)
@example("**a/b**", "bb/bb")
@example("**/..", "b")
def test_overlap_agrees_with_trying_every_small_path(a: str, b: str) -> None:
    assert overlaps(a, b) is tried(a, b, SMALL_PATHS)


@given(dotted, dotted)
@example("?.", ".?")
@example("?.", "*a")
@example(".*", "?.")
@example("*", "[b-a]")
def test_overlap_knows_that_dots_alone_are_not_a_name(a: str, b: str) -> None:
    assume(not {".", ".."} & {a, b} and "**" not in a and "**" not in b)
    paths = [name for name in SMALL_NAMES if name not in (".", "..")]
    assert overlaps(a, b) is tried(a, b, paths)


def test_nothing_lies_under_a_file() -> None:
    assert overlaps("**/x.py", "src/y.py")
    assert not overlaps("**/x.py", "src/y.py", files={"src/y.py"})
    assert overlaps("**/y.py", "src/y.py", files={"src/y.py"})
    assert overlaps("src", "src/y.py", files={"src/y.py"})


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1).filter(lambda t: t not in (".", ".."))
)
def test_an_escaped_path_stands_for_itself(name: str) -> None:
    pattern = patterns.escape(f"dir/{name}")
    assert match(pattern, f"dir/{name}")
    assert match(pattern, f"dir/{name}/below")
    assert patterns.is_literal(pattern)
    assert not match(pattern, f"dir/{name}x")


@given(st.text(r"a/.*?[]{},!-\\", min_size=1, max_size=30), st.text("a/.b", max_size=12))
@settings(max_examples=300)
def test_any_text_is_a_pattern_or_a_clear_refusal(pattern: str, path: str) -> None:
    try:
        matched = match(pattern, path)
    except ConfigError:
        return
    if matched:
        assert overlaps(pattern, patterns.escape(path or "."))


def test_a_hostile_pattern_cannot_make_matching_explode() -> None:
    code = """
from treadle.policy.patterns import match, overlaps
stars, dirs = "a*" * 2000 + "b", "**/a/" * 500 + "b"
assert not match(stars, "a" * 4000) and not overlaps(stars, "a" * 4000)
assert not match(dirs, "a/" * 1000) and not overlaps(dirs, "a?/" * 1000 + "c")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [("{a,b}" * 200, "alternatives"), ("a**" * 200 + "b", "alternatives"), ("{" * 5000, "characters"), ("", "empty")],
)
def test_a_pattern_that_stands_for_too_much_is_refused_at_once(pattern: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        match(pattern, "a")


@pytest.mark.parametrize("pattern", ["*", "src/*.ts", "src/**", "**", "a/b*", "{a,b}", "src/?"])
def test_a_pattern_with_a_wildcard_is_not_literal_wherever_it_stands(pattern: str) -> None:
    assert not patterns.is_literal(pattern)
