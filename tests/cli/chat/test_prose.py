"""Markdown while it is being written."""

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from treadle.cli.chat.page import PROSE_LINES, Prose, finished, trimmed, unfinished


def drawn(text: str) -> str:
    console = Console(width=40, color_system=None, force_terminal=False)
    with console.capture() as shown:
        console.print(Prose(text))
    return "\n".join(line.rstrip() for line in trimmed(shown.get()).split("\n"))


@given(st.text(alphabet="a`~\n #", max_size=60))
def test_what_is_cut_off_as_finished_and_the_rest_are_the_whole(text: str) -> None:
    end = finished(text)
    assert 0 <= end <= len(text)
    assert end == 0 or text[end - 1] == "\n"
    assert finished(text[:end]) == end


@given(st.text(alphabet="a`-1. \n", max_size=60), st.integers(0, 60))
def test_what_was_finished_stays_finished_whatever_comes(text: str, at: int) -> None:
    assert finished(text[:at]) <= max(finished(text), finished(text[:at].rstrip("`")))


def test_a_list_item_keeps_what_is_indented_below_it() -> None:
    begun = "1. one\n\n   more of one\n\n"
    assert finished(begun) == 0, "the next line may still belong to it"
    assert finished(begun + "2. two") == len(begun)
    assert finished("- run\n  ```\n  x\n  ```\n") == 0
    assert drawn(begun) == " 1 one\n   more of one"


def test_headings_stand_at_the_left_and_code_can_be_copied() -> None:
    assert drawn("# Head\n\n```python\nif a:\n    b\n```") == "Head\n\nif a:\n    b"


def test_of_a_long_block_only_the_end_is_drawn_and_code_stays_code() -> None:
    code = "```python\n" + "".join(f"x = {n}\n" for n in range(1000))
    end = unfinished(code)
    assert end.startswith("```python\nx = ") and end.endswith("x = 999\n") and len(end.split("\n")) == PROSE_LINES + 1
    assert unfinished(code + "```\n" + "word\n" * 100).startswith("word\n")


def test_lines_in_which_nothing_is_seen_are_taken_off_both_ends() -> None:
    assert trimmed("\n\x1b[36m  \x1b[0m\na\n\nb\n \x1b[0m\n") == "a\n\nb"


def test_a_code_block_ends_only_at_a_fence_that_can_close_it() -> None:
    for begun in ("```\na\n\nb\n", "```\na\n```py\nb\n", "````\na\n```\n", "~~~\na\n```\n"):
        assert finished(begun) == 0, begun
    for whole in ("```\na\n```\n", "```\na\n````\n", "~~~\na\n~~~\n"):
        assert finished(whole) == len(whole), whole
    assert finished("one\n\n```\na\n\nb\n") == len("one\n\n")
    long = "```py\n" + "x\n" * 20 + "```\n" + "~~~\n" + "y\n" * 60
    assert unfinished(long).startswith("~~~\ny\n")
