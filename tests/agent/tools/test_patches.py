"""Patches with context: what they say, and where they fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.apply_patch import BEGIN, END, apply, parse
from treadle.errors import ToolError

FILE = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    x = 1\n    return x\n"


def patched(text: str, *lines: str) -> str:
    (one,) = parse("\n".join([BEGIN, "*** Update File: f", *lines, END]))
    return apply(text, one.hunks)


def test_a_patch_says_what_becomes_of_each_file() -> None:
    made, gone, moved = parse(
        f"{BEGIN}\n*** Add File: a/new.txt\n+one\n+\n+two\n*** Delete File: old.txt\n"
        f"*** Update File: x.py\n*** Move to: y.py\n@@ def f():\n-a\n+b\n{END}\n"
    )
    assert (made.kind, made.path, made.content) == ("add", "a/new.txt", "one\n\ntwo\n")
    assert (gone.kind, gone.path) == ("delete", "old.txt")
    assert (moved.kind, moved.path, moved.move_to, moved.hunks[0].anchors) == ("update", "x.py", "y.py", ["def f():"])


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("--- a\n+++ b", "begins with"),
        (f"{BEGIN}\n*** Update File: f\n-a\n+b", "cut off"),
        (f"{BEGIN}\n-a\n{END}", "belongs to no file"),
        (f"{BEGIN}\n{END}", "changes nothing"),
        (f"{BEGIN}\n*** Update File: f\n{END}", "nothing to do"),
        (f"{BEGIN}\n*** Add File: f\nplain\n{END}", "begins with 'p'"),
        (f"{BEGIN}\n*** Delete File: f\n-a\n{END}", "has no lines"),
    ],
)
def test_what_is_no_patch_is_refused_with_the_reason(patch: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        parse(patch)


def test_a_hunk_changes_the_only_place_where_it_fits() -> None:
    first, second = FILE.split("def b")
    assert patched(FILE, "@@", " def b():", "-    x = 1", "+    x = 2") == f"{first}def b{second.replace('1', '2')}"


def test_a_place_is_named_by_the_line_above_it() -> None:
    assert patched(FILE, "@@ def b():", "-    x = 1", "+    x = 2").endswith("def b():\n    x = 2\n    return x\n")
    assert patched(FILE, "@@ def a", "-    x = 1", "+    x = 2", "@@ def b", "-    x = 1", "+    x = 3") == (
        FILE.replace("x = 1", "x = 2", 1).replace("x = 1", "x = 3")
    )


def test_a_hunk_that_fits_twice_or_nowhere_changes_nothing() -> None:
    with pytest.raises(ToolError, match="fits at 2 places, at lines 2, 7"):
        patched(FILE, "@@", "-    x = 1", "+    x = 2")
    with pytest.raises(ToolError, match=r"(?s)not in the file.*nearest place is.*x = 1"):
        patched(FILE, "@@", "-    x = 11", "+    x = 2")
    with pytest.raises(ToolError, match="no line 'def c'"):
        patched(FILE, "@@ def c", "-    x = 1", "+    x = 2")


def test_an_anchor_that_is_there_twice_does_not_choose_for_the_model() -> None:
    twice = "class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n"
    with pytest.raises(ToolError, match="fits at 2 places"):
        patched(twice, "@@ def f():", "-    x", "+    y")
    assert patched(twice, "@@ class B:", "@@ def f():", "-    x", "+    y") == twice[:-2] + "y\n"


def test_hunks_are_below_each_other() -> None:
    with pytest.raises(ToolError, match="hunk 2"):
        patched(FILE, "@@ def b():", "-    x = 1", "+    x = 2", "@@ def a():", "-    x = 1", "+    x = 3")


def test_the_file_keeps_its_own_white_space_and_line_ends() -> None:
    assert patched("a  \nb\n", "@@", " a", "-b", "+c") == "a  \nc\n"
    assert patched("a\r\nb\r\n", "@@", " a", "-b", "+c", "+d") == "a\r\nc\r\nd\r\n"
    assert patched("a\nb", "@@", " a", "-b", "+c") == "a\nc"
    assert patched("a\n\nb\n", "@@", " a", "", "-b", "+c") == "a\n\nc\n", "an empty line lost its space"


def test_lines_without_context_go_to_the_end_or_below_the_named_line() -> None:
    assert patched("a\nb\n", "@@", "+c") == "a\nb\nc\n"
    assert patched("a\nb\n", "@@ a", "+c") == "a\nc\nb\n"
    assert patched("", "@@", "+c") == "c\n"


def test_a_place_at_the_end_of_the_file_is_said_to_be_there() -> None:
    assert patched("a\nb\na\n", "@@", "-a", "+c", "*** End of File") == "a\nb\nc\n"


@given(
    st.lists(st.text("ab \t{}", max_size=4), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(0, 4),
    st.lists(st.text("xyz", max_size=3), max_size=4),
)
def test_a_patch_with_all_of_the_file_as_its_context_makes_exactly_its_change(
    lines: list[str], at: int, removed: int, added: list[str]
) -> None:
    at = min(at, len(lines))
    gone = lines[at : at + removed]
    hunk = [*(f" {line}" for line in lines[:at]), *(f"-{line}" for line in gone), *(f"+{line}" for line in added)]
    hunk += [f" {line}" for line in lines[at + len(gone) :]]
    after = [*lines[:at], *added, *lines[at + len(gone) :]]
    assert patched("".join(f"{line}\n" for line in lines), "@@", *hunk) == "".join(f"{line}\n" for line in after)


def test_an_anchor_may_be_shortened_and_the_exact_one_goes_first() -> None:
    text = "class AB:\n  x\nclass A:\n  x\n"
    assert patched(text, "@@ class A:", "-  x", "+  y") == "class AB:\n  x\nclass A:\n  y\n"
    assert patched("def long_name(a, b):\n  x\n", "@@ def long_name", "-  x", "+  y").endswith("  y\n")
