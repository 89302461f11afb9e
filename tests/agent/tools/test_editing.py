import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from treadle.agent.tools.files import apply
from treadle.errors import ToolError


def test_multi_byte_text_is_found_at_its_start() -> None:
    assert apply("é\nüber\n", "é", "e").text == "e\nüber\n"
    assert apply("a😀b", "😀", "").text == "ab"


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a")])
def test_an_edit_that_says_nothing_is_refused(old: str, new: str) -> None:
    with pytest.raises(ToolError):
        apply("a\n", old, new)


def test_lf_in_the_edit_meets_crlf_in_the_file_and_crlf_stays() -> None:
    assert apply("one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "1\n2\n2b\n").text == "1\r\n2\r\n2b\r\nthree\r\n"


def test_mixed_line_ends_are_met_line_by_line() -> None:
    assert apply("one\r\ntwo\nthree\r\n", "one\ntwo", "1\ntwo").text == "1\r\ntwo\nthree\r\n"


def test_wrong_indentation_is_forgiven_and_the_files_own_is_kept() -> None:
    text = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"
    done = apply(text, "def g(self):\n    return 2\n", "def g(self):\n    if x:\n        return 3\n    return 2\n")
    assert done.tolerant
    assert done.text == (
        "class A:\n    def f(self):\n        return 1\n\n"
        "    def g(self):\n        if x:\n            return 3\n        return 2\n"
    )


def test_spaces_meant_for_tabs_become_tabs() -> None:
    done = apply("func f() {\n\tif x {\n\t\ty()\n\t}\n}\n", "    if x {\n        y()\n    }\n",
                 "    if x {\n        y()\n        if z {\n            w()\n        }\n    }\n")  # fmt: skip
    assert done.text == "func f() {\n\tif x {\n\t\ty()\n\t\tif z {\n\t\t\tw()\n\t\t}\n\t}\n}\n"


def test_tabs_meant_for_spaces_become_spaces() -> None:
    done = apply("def f():\n    if x:\n        y()\n", "\tif x:\n\t\ty()\n", "\tif x:\n\t\ty()\n\t\tif z:\n\t\t\tw()\n")
    assert done.text == "def f():\n    if x:\n        y()\n        if z:\n            w()\n"


def test_lines_that_the_edit_does_not_change_stay_as_the_file_has_them() -> None:
    done = apply("a  =  1   \nb = 2\nc   = 3\n", "a = 1\nb = 2\nc = 3", "a = 1\nb = 20\nc = 3")
    assert done.text == "a  =  1   \nb = 20\nc   = 3\n"


def test_a_tolerant_match_must_be_unique_too() -> None:
    with pytest.raises(ToolError, match=r"but for white space it is there 2 times, at lines 1, 3"):
        apply("  x = 1\ny\n    x = 1\n", "x  =  1", "x = 2")


def test_a_tolerant_match_never_takes_only_blank_lines() -> None:
    with pytest.raises(ToolError, match="not in the file"):
        apply("a\n\n\nb\n", "   \n\t\n", "x\n")


def test_deleting_lines_leaves_no_blank_one() -> None:
    assert apply("a\n   b\nc\n", "b  \n", "").text == "a\nc\n"
    assert apply("a\n\tb b\nc\n", "    b b", "").text == "a\nc\n"


def test_a_file_without_last_newline_stays_without() -> None:
    assert apply("a\n  b  c", "b c", "d").text == "a\n  d"


def test_a_miss_names_the_nearest_lines() -> None:
    text = "def first():\n    pass\n\ndef process_items(items, limit):\n    pass\n"
    with pytest.raises(
        ToolError, match=r"(?s)nearest place.* 3\t\n +4\tdef process_items\(items, limit\):\n +5\t    pass"
    ):
        apply(text, "def process_item(items, limits):\n    pass", "x")


def test_a_miss_in_a_file_like_nothing_says_so() -> None:
    with pytest.raises(ToolError, match="nothing in the file looks like it"):
        apply("a\nb\n", "something else altogether", "x")


lines = st.lists(st.sampled_from(["a", "  b", "\tc c", "", "d  d", "é"]), min_size=1, max_size=8)


@given(before=lines, old=lines, new=lines, after=lines, ending=st.sampled_from(["\n", "\r\n"]))
def test_only_the_place_that_was_meant_changes(
    before: list[str], old: list[str], new: list[str], after: list[str], ending: str
) -> None:
    """Whatever way the match was found, everything before and after it is kept byte by byte."""
    text = ending.join(["START", *before, "X", *old, "Y", *after, "END"])
    wanted = "\n".join(["X", *(" " + line if line else line for line in old), "Y"])
    assume("\n".join(["X", *new, "Y"]) != wanted)
    done = apply(text, wanted, "\n".join(["X", *new, "Y"]))
    assert done.text.startswith(ending.join(["START", *before, "X"]) + ending)
    assert done.text.endswith(ending + ending.join(["Y", *after, "END"]))
    assert [line.strip() for line in done.text.split(ending)] == [
        line.strip() for line in ["START", *before, "X", *new, "Y", *after, "END"]
    ]


@given(text=st.text(max_size=60), old=st.text(min_size=1, max_size=5), new=st.text(max_size=5))
def test_any_edit_either_is_made_or_is_a_tool_error(text: str, old: str, new: str) -> None:
    try:
        done = apply(text, old, new)
    except ToolError:
        return
    if not done.tolerant and "\r" not in text:
        assert done.text == text.replace(old, new, 1) and text.count(old) == 1


def test_a_miss_in_a_file_of_many_thousand_lines_is_answered_at_once() -> None:
    text = "".join(
        f"    value_{number} = compute_something({number * 7}, other={number % 99})\n" for number in range(20_000)
    )
    with pytest.raises(ToolError, match=r"nearest place(.|\n)* 13\t    value_12 = "):
        apply(text, "    value_12 = compute_somethink(84, others=12)", "x")
