"""When a reply is taken for one that cannot stop."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.small import LINES, endless


def said(lines: list[str]) -> str:
    return '{"tool":"write_file","content":' + json.dumps("\n".join(["import words", *lines, ""]))[:-1]


@pytest.mark.parametrize(
    "form",
    ["assert count('{0} words') == {0}", 'print("{0}")', "    total += {0}", "- item {0}", "x = x"],
)
def test_lines_that_differ_only_in_texts_and_numbers_are_endless(form: str) -> None:
    lines = [form.format(number) for number in range(LINES)]
    assert endless(said(lines)).strip() == json.dumps(lines[0].strip())[1:-1]
    assert not endless(said(lines[:-1]))


@pytest.mark.parametrize(
    "lines",
    [
        [f'    "{number}": {number},' for number in range(30)],
        [f"{number},{number}" for number in range(30)],
        [""] * 30,
        [line for number in range(20) for line in (f"def f{number}():", "    pass", "")],
        [f"{name} = 1" for name in "abcdefghijklmnopqrstuvwxyz"],
    ],
)
def test_a_table_and_code_that_goes_forward_are_not(lines: list[str]) -> None:
    assert not endless(said(lines))


@given(st.text())
def test_any_text_has_an_answer_which_is_part_of_it(text: str) -> None:
    assert endless(text) in text
