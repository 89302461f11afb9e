import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from treadle.agent.tools.files import apply
from treadle.errors import ToolError

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
    with pytest.raises(ToolError, match=r"most similar lines are these(.|\n)* 13\t    value_12 = "):
        apply(text, "    value_12 = compute_somethink(84, others=12)", "x")
