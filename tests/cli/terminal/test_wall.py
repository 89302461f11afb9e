"""`treadle wall`: what it needs. What it shows and which keys it takes is in tests/terminal/test_wall.py."""

import pytest

from treadle.cli.arguments import UsageError
from treadle.cli.terminal import wall
from treadle.errors import ConfigError


def test_without_a_terminal_it_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match="needs a terminal") as refused:
        wall.main([])
    assert "ls --watch" in str(refused.value.hint)


def test_it_takes_no_words() -> None:
    with pytest.raises(UsageError, match="no arguments"):
        wall.main(["one"])
