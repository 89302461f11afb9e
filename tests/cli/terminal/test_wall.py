"""`treadle wall`: what it needs, and the way into one terminal and back. The rest is in tests/terminal/test_wall.py."""

from collections.abc import Callable

import pytest

from tests.cli.terminal.shells import Here, Person
from treadle.cli.arguments import UsageError
from treadle.cli.terminal import start
from treadle.errors import ConfigError


def test_without_a_terminal_it_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match="needs a terminal") as refused:
        start.wall_command([])
    assert "ls --watch" in str(refused.value.hint)


def test_it_takes_no_words() -> None:
    with pytest.raises(UsageError, match="no arguments"):
        start.wall_command(["one"])


def test_on_a_terminal_that_can_draw_nothing_it_says_so(here: Here, person: Callable[..., Person]) -> None:
    me = person("wall", term="dumb")
    assert me.leaves() == 1 and "needs a terminal" in me.sees("ls --watch")


def test_one_is_joined_with_the_whole_screen_and_left_for_the_wall_again(
    here: Here, person: Callable[..., Person]
) -> None:
    for name in ("one", "two"):
        here.stage.start("sh", "-c", f"echo this is {name}; exec cat", id=name)
    me = person("wall", cols=130, rows=30)
    assert "this is one" in me.sees("this is two")
    me.types(b"\x1b[B")
    me.sees("\nthis is two")
    me.types(b"\r")
    me.sees("[treadle] two")
    me.types(b"typed\r")
    me.sees("typed\ntyped")
    me.types(b"\x1c")
    assert "[treadle]" not in me.sees("this is one")
    assert me.sees("Enter: join it").startswith(" two ")
    me.types(b"q")
    assert me.leaves() == 0
