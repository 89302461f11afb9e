"""`treadle completion`."""

import pytest
from click.testing import CliRunner

from treadle.cli.completion.command import completion


def test_without_a_shell_it_says_which_there_are() -> None:
    result = CliRunner().invoke(completion)
    assert result.exit_code == 2 and "bash, zsh, fish" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str) -> None:
    assert "heimdall-claim" in CliRunner().invoke(completion, [shell]).output


def test_a_list_that_cannot_be_made_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_HOME", "/dev/null/x")
    result = CliRunner().invoke(completion, ["--list", "sessions"])
    assert result.exit_code == 0 and result.output == ""
