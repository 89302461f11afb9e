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


def test_nothing_given_is_nothing_found() -> None:
    found, words = parse([], ["--to"], ["-q"], ["--tag"], False)
    assert (found["--to"], found["-q"], found["--tag"], words) == (None, False, [], [])
    for line in ([], ["--"]):
        assert parse(line, ["--to"], [], [], True)[1] == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["ls", "--", "z"], ["ls", "z"]),
        (["--", "ls", "--", "z"], ["ls", "--", "z"]),
        (["ls", "-l"], ["ls", "-l"]),
        (["ls", "a", "--", "z"], ["ls", "a", "--", "z"]),
        (["", "--"], [""]),
    ],
)
def test_two_dashes_belong_to_a_command_that_has_words_of_its_own(line: list[str], words: list[str]) -> None:
    assert parse(line, [], [], [], True)[1] == words


def test_help_is_no_option_of_the_parser_and_an_error_has_no_usage() -> None:
    with pytest.raises(ValueError, match="unrecognized arguments: --help") as wrong:
        parse(["--help"], [], [], [], False)
    assert "usage" not in str(wrong.value)
