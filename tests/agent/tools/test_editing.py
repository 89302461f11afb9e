import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.files import apply
from treadle.errors import ToolError


@given(text=st.text(max_size=60), old=st.text(min_size=1, max_size=5), new=st.text(max_size=5))
def test_any_edit_either_is_made_or_is_a_tool_error(text: str, old: str, new: str) -> None:
    try:
        done = apply(text, old, new)
    except ToolError:
        return
    if "\r" not in text:
        assert done.text == text.replace(old, new, 1) and text.count(old) == 1


def test_a_miss_in_a_file_of_many_thousand_lines_is_answered_at_once() -> None:
    text = "".join(
        f"    value_{number} = compute_something({number * 7}, other={number % 99})\n" for number in range(20_000)
    )
    with pytest.raises(ToolError, match=r"most similar lines are these(.|\n)* 13\t    value_12 = "):
        apply(text, "    value_12 = compute_somethink(84, others=12)", "x")
