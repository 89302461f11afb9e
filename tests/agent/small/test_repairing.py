"""Edits are made where they are meant."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.messages import ToolCall
from treadle.agent.providers.small import exact_place, repaired
from treadle.agent.tools import files

TEXT = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ("def a():\n    return 1\n\ndef b():", "def a():\n    return 1\n\n\ndef b():"),
        ("def b():\nreturn 2", "def b():\n    return 2"),
        ("return  2", "    return 2"),
        ("return 1", None),
        ("return 3", None),
        ("", None),
        ("\n", None),
    ],
)
def test_a_place_is_found_without_its_blank_lines_and_indentation(old: str, place: str | None) -> None:
    assert exact_place(TEXT, old) == place


def test_a_place_that_is_there_twice_is_not_guessed() -> None:
    assert exact_place("x  = 1\ny = 2\nx  = 1\n", "x = 1") is None


def edit(old: str, new: str) -> ToolCall:
    return ToolCall(
        id="1",
        name="edit_file",
        arguments=json.dumps({"file_path": "a.py", "old_string": old, "new_string": new}),
    )


def test_the_new_text_is_indented_as_the_place_is() -> None:
    call = json.loads(repaired(edit("return  2", "x = 2\nreturn x"), TEXT).arguments)
    assert files.apply(TEXT, call["old_string"], call["new_string"]).text.endswith("    x = 2\n    return x\n")


def test_an_edit_that_is_right_or_hopeless_stays_as_it_is() -> None:
    for call in (edit("return 1", "return 3"), edit("nothing", "x"), ToolCall(id="1", name="edit_file", arguments="{")):
        assert repaired(call, TEXT) is call


@given(st.text(alphabet="ab \n\t"), st.text(alphabet="ab \n\t"))
def test_what_is_found_is_in_the_file(text: str, old: str) -> None:
    place = exact_place(text, old)
    assert place is None or place in text
