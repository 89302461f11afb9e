"""Several terminals in one view."""

import re
import shlex

from hypothesis import given
from hypothesis import strategies as st

from tests.installed import TREADLE, treadle
from tests.terminal.support import Stage, alive, connected, until
from tests.terminal.tmux import Tmux
from treadle.terminal.listing import row
from treadle.terminal.panel import width
from treadle.terminal.places import Place
from treadle.terminal.wall import layout, order, painted

ASKS = r"printf '\033]7501;state=blocked:kind=permission\033\\'"
WORKS = ASKS.replace("blocked:kind=permission", "working")


@given(st.integers(0, 30), st.integers(1, 300), st.integers(1, 100))
def test_tiles_lie_within_the_screen_and_do_not_overlap(count: int, cols: int, lines: int) -> None:
    areas = layout(count, cols, lines)
    assert len(areas) <= count
    used = set()
    for x, y, wide, high in areas:
        assert wide > 0 and high > 0
        cells = {(column, line) for column in range(x, x + wide) for line in range(y, y + high)}
        assert not cells & used and all(column < cols and line < lines for column, line in cells)
        used |= cells


def test_who_has_waited_longest_is_in_front_unless_another_was_chosen() -> None:
    found = [
        {"id": "a", "state": "idle", "began": 1},
        {"id": "b", "state": "permission", "began": 5},
        {"id": "c", "state": "question", "began": 2},
    ]
    assert [each["id"] for each in order(found)] == ["c", "b", "a"]
    assert [each["id"] for each in order(found, "a")] == ["a", "c", "b"]


@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["", "#ff0080"]), st.just(""), st.integers(0, 63))))
def test_a_row_fills_its_columns_exactly_and_cannot_act(runs: list[tuple[str, str, str, int]]) -> None:
    for true_colour in (True, False):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", painted(runs, 12, true_colour))
        assert width(shown) == 12 and shown.isprintable()


def wall(stage: Stage, tmux: Tmux, name: str = "me") -> None:
    tmux.window(name, shlex.join([TREADLE, "wall", "--socket-dir", str(stage.directory)]))
    tmux("resize-window", "-t", name, "-x", "130", "-y", "30")


def shell(stage: Stage, name: str, script: str) -> Place:
    place = stage.start("sh", "-c", script, id=name)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"] > 0)
    return place


def titles(tmux: Tmux) -> list[str]:
    """The ids of the terminals, the one in front first."""
    screen = tmux.screen("me").splitlines()
    front = screen[0].split()[:1]
    return [*front, *re.findall(r"│ (\S+)  (?:idle|unknown|permission|thinking|starting)", "\n".join(screen))]


def test_the_one_that_asks_is_in_front_and_the_others_beside_it(stage: Stage, tmux: Tmux) -> None:
    shell(stage, "one", "echo this is one; exec cat")
    shell(stage, "two", f"echo this is two; read go; echo may I?; {ASKS}; exec cat")
    until(lambda: row(Place(str(stage.directory), "two")).get("idle_ms", 0) > 1000)  # nothing changes any more
    wall(stage, tmux)
    assert "this is one" in tmux.shows("me", "this is two")
    until(lambda: titles(tmux) == ["one", "two"])
    with connected(Place(str(stage.directory), "two")) as client:
        client.input(b"go\n")
    until(lambda: titles(tmux) == ["two", "one"])
    screen = tmux.shows("me", "may I?")
    assert "permission" in screen and "this is one" in screen
    shell(stage, "three", "echo a third one; exec cat")
    tmux.shows("me", "a third one")
    tmux.type("me", "q")
    tmux.shows("me", "code:0")


def test_keys_go_only_to_the_terminal_that_one_types_into(stage: Stage, tmux: Tmux) -> None:
    one = shell(stage, "one", f"echo this is one; {WORKS}; exec cat")
    two = shell(stage, "two", f"echo this is two; read go; {ASKS}; exec cat")
    wall(stage, tmux)
    until(lambda: titles(tmux) == ["one", "two"])
    tmux.type("me", "x")  # no command: nothing is typed
    tmux.type("me", "i")
    tmux.shows("me", "you type into one")
    tmux.type("me", "hello", "Enter")
    until(lambda: tmux.screen("me").count("hello") == 2)
    with connected(two) as client:
        client.input(b"go\n")
    until(lambda: row(two)["state"] == "permission")
    tmux.shows("me", "permission")
    tmux.type("me", "still-one", "Enter")
    until(lambda: tmux.screen("me").count("still-one") == 2)
    with connected(one) as client:
        assert "still-one" in client.detail()["last_line"]
    with connected(two) as client:
        assert "still" not in (client.detail()["last_line"] or "")
    tmux.type("me", "C-\\")
    tmux.shows("me", "Enter: join it")
    tmux.type("me", "n")
    until(lambda: titles(tmux)[0] == "two")
    tmux.type("me", "q")
    tmux.shows("me", "code:0")
    assert alive(one.pids()[1])


def test_one_is_joined_with_the_whole_screen_and_left_for_the_wall_again(stage: Stage, tmux: Tmux) -> None:
    shell(stage, "one", "echo this is one; exec cat")
    shell(stage, "two", "echo this is two; exec cat")
    wall(stage, tmux)
    until(lambda: titles(tmux) == ["one", "two"])
    tmux.type("me", "Down")
    until(lambda: titles(tmux) == ["two", "one"])
    tmux.type("me", "Enter")
    tmux.shows("me", "[treadle] two")
    tmux.type("me", "typed", "Enter")
    until(lambda: tmux.screen("me").count("typed") == 2)
    tmux.type("me", "C-\\")
    until(lambda: titles(tmux) == ["two", "one"])
    tmux.type("me", "q")
    tmux.shows("me", "code:0")


def test_without_a_terminal_it_says_what_to_do(stage: Stage) -> None:
    done = treadle("wall", "--socket-dir", str(stage.directory))
    assert done.returncode == 1 and "ls --watch" in done.stderr
