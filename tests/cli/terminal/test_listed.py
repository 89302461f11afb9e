"""The terminal commands in the list of all commands."""

import pytest
from click.testing import CliRunner

from treadle.cli.arguments import TERMINAL
from treadle.cli.terminal import listed


@pytest.mark.parametrize("name", TERMINAL)
def test_each_has_its_first_sentence_and_takes_its_words_as_they_are(name: str) -> None:
    command = getattr(listed, name)
    assert command.name == name and command.help and "\n" not in command.help
    done = CliRunner().invoke(command, ["--no-such-option"])
    assert done.exit_code == 2, "its own parser refuses it"


def test_what_is_no_command_is_no_attribute() -> None:
    with pytest.raises(AttributeError):
        _ = listed.dance


def test_help_is_its_own_and_every_word_is_passed_on() -> None:
    done = CliRunner().invoke(listed.detectors, ["--help"])
    assert done.exit_code == 0 and done.output.startswith("List or test the tables") and "Usage:" not in done.output
    done = CliRunner().invoke(listed.detectors, ["test", "/nowhere.toml", "--json"])
    assert done.exit_code == 1 and "/nowhere.toml" in done.output
    assert CliRunner().invoke(listed.detectors, ["ls", "x"]).exit_code == 2
