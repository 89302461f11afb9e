"""Terminals of orders need one to be shown on."""

import pytest

from tests.cli.fleet.commands import fleet


@pytest.mark.parametrize("command", ["shell", "attach"])
def test_without_a_terminal_it_says_what_shows_the_same(command: str) -> None:
    assert "treadle fleet logs" in fleet(command, "any", code=1)
