"""A small command's line: options, flags, and the words between and behind them."""

import pytest

from treadle.cli.parser import parse


def test_options_stand_anywhere_between_the_words() -> None:
    found, words = parse(["a", "--to", "x", "b", "-q"], ["--to"], ["-q", "--all"], [], False)
    assert words == ["a", "b"] and found["--to"] == "x" and found["-q"] and not found["--all"]


def test_behind_two_dashes_everything_is_a_word() -> None:
    found, words = parse(["--tag", "1", "--tag", "2", "a", "--", "--tag", "3"], [], [], ["--tag"], False)
    assert found["--tag"] == ["1", "2"] and words == ["a", "--tag", "3"]


def test_a_command_keeps_its_own_options() -> None:
    found, words = parse(["--id", "x", "ls", "--id", "y", "--", "z"], ["--id"], [], [], True)
    assert found["--id"] == "x" and words == ["ls", "--id", "y", "--", "z"]


@pytest.mark.parametrize("line", [["--tool", "x"], ["--to"], ["--t", "x"]])
def test_what_is_typed_wrongly_is_said(line: list[str]) -> None:
    with pytest.raises(ValueError, match="--t"):
        parse(line, ["--to"], [], [], False)
