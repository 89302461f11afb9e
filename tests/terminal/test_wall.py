"""Several terminals in one view."""

import asyncio
import re
import shlex
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.installed import TREADLE
from tests.terminal.support import Desk, Stage, alive, connected, until
from tests.terminal.tmux import Tmux
from tests.waiting import until as soon
from treadle.terminal.listing import row
from treadle.terminal.places import Place
from treadle.terminal.viewers.panel import Panel, width
from treadle.terminal.viewers.screen import Screen
from treadle.terminal.viewers.wall import JOIN, Wall, layout, painted

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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_key_answers_the_dialog_that_is_shown_and_no_later_one(stage: Stage, tmux: Tmux) -> None:
    next_one = ASKS.replace("kind=permission", "kind=question:msg=bmV4dA==")
    asks = shell(stage, "asks", f"echo go on?; {ASKS}; stty -icanon -echo; dd bs=1 count=1; {next_one}; exec cat")
    until(lambda: row(asks)["state"] == "permission" and bool(row(asks)["dialog"]))
    wall(stage, tmux)
    until(lambda: titles(tmux) == ["asks"])
    tmux.type("me", "a")
    tmux.shows("me", f"the next key answers asks [{row(asks)['dialog']}]")
    with connected(asks) as client:
        client.input(b"y")  # another person is quicker
    until(lambda: row(asks)["state"] == "question")
    tmux.type("me", "y")
    tmux.shows("me", "not answered: it asks something else now")
    with connected(asks) as client:
        assert client.detail()["state"]["name"] == "question" and "yy" not in (client.detail()["last_line"] or "")
    tmux.shows("me", f"[{row(asks)['dialog']}] next")
    tmux.type("me", "a")
    tmux.shows("me", "the next key answers asks")
    tmux.type("me", "C-\\")
    tmux.shows("me", "Enter: join it")
    tmux.type("me", "a")
    tmux.shows("me", "the next key answers asks")
    tmux.type("me", "z")
    tmux.shows("me", "asks was answered")
    tmux.type("me", "q")
    tmux.shows("me", "code:0")


class Paper(Panel):
    """A panel that no terminal shows."""

    def __init__(self, cols: int, rows: int) -> None:
        super().__init__(-1)
        self.shape = cols, rows

    @property
    def size(self) -> tuple[int, int]:
        return self.shape


def drawn(wall: Wall) -> list[str]:
    with Screen(*wall.panel.size) as screen:
        screen.feed("".join(wall.picture()).encode())
        return screen.lines()


WORDS = "Would you like to run the following command? · Reason: the old files are in the way · rm x"


async def test_keys_choose_what_is_in_front_and_the_title_says_what_each_does(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = Paper(130, 10)
    wall = Wall(str(tmp_path), panel, 0x1C)
    assert drawn(wall)[1] == "  No terminal runs here. The key c starts one, and so does `treadle run`."
    for key in (b"\t", b"i", b"n"):
        press(desk, wall, key)
    assert (wall.chosen, wall.typing) == ("", "") and "no terminal waits for a person" in drawn(wall)[9]
    wall.found = [
        {"id": "a", "state": "idle", "state_ms": 61_000},
        {"id": "b", "state": "permission", "began": 5, "message": WORDS, "agent": "codex", "dialog": "2-a1"},
        {"id": "c", "state": "question", "began": 2, "message": "why?"},
        {"id": "d", "state": "thinking"},
    ]
    press(desk, wall, b"x")
    picture = drawn(wall)
    assert picture[0].startswith(" c  question 0s  [?] why?") and "│ b  codex  permission 0s  [2-a1] rm x" in picture[0]
    assert "│ a  idle 1m1s" in picture[4] and picture[9].startswith(" 1 more   arrows: choose")
    text = "".join(wall.picture())
    assert "\x1b[1;1H\x1b[0;1;97;41m c " in text and "\x1b[0;97;41m b " in text and "\x1b[0;97;100m a " in text
    fronts = []
    for key in (b"\x1b[B", b"\x1b[C", b"j", b"\t", b"\x1b[A", b"\x1b[D", b"k", b"\x1b[Z", b"\x1b", b"n", b"n", b"n"):
        press(desk, wall, key)
        fronts.append(wall.front())
    assert fronts == ["d", "a", "b", "c", "b", "a", "d", "c", "c", "b", "c", "b"]
    press(desk, wall, b"\x1b")
    press(desk, wall, b"j")
    assert "\x1b[0;1;97;44m d " in "".join(wall.picture())
    press(desk, wall, b"n")
    assert wall.chosen == "c", "from one that does not ask, to the first that does"
    press(desk, wall, b"i")
    assert wall.typing == "c" and "you type into c; Ctrl-\\ ends that" in drawn(wall)[9]
    press(desk, wall, b"q")
    assert wall.typing == "" and wall.words.startswith("c: "), "it was sent to a terminal that is gone"
    press(desk, wall, b"i")
    press(desk, wall, b"\x1c")
    assert wall.typing == "" and wall.words == ""
    panel.shape = 40, 8
    assert drawn(wall)[0].startswith(" c  question") and not any("│" in line for line in drawn(wall))
    press(desk, wall, b"2")
    wall.beside = "b"
    for key in (b"n", b"\t", b"\t"):
        press(desk, wall, key)
        assert {row["id"] for row in wall.shown()} == {"b", "c"}, "two share the view, whichever asks next"
    assert (wall.front(), wall.beside) == ("b", "c")
    press(desk, wall, b"\x1b")
    panel.shape = 80, 8
    wall.found = wall.found[:1]
    assert drawn(wall)[7].endswith("c: new  2: two  q: leave")
    desk.signalled(signal.SIGTERM)
    wall.panel = Panel(desk.signals)
    press(desk, wall, b"c")
    assert wall._over.is_set(), "also while it asks which command to run"


def press(desk: Desk, wall: Wall, key: bytes) -> None:
    desk.types(key)
    wall._typed()


async def test_a_wall_is_drawn_typed_into_and_left(desk: Desk, stage: Stage) -> None:
    place = stage.start("sh", "-c", "stty -echo; echo this is one; read a; echo got $a; exec cat", id="one")
    desk.resize(60, 8)
    panel = Panel(desk.signals)
    with Screen(60, 8) as screen:
        wall = Wall(str(stage.directory), panel, 0x1C)
        running = asyncio.create_task(wall.run())

        def shows(text: str) -> bool:
            screen.feed(desk.written().encode())
            return text in "\n".join(screen.lines())

        await soon(lambda: shows("this is one"))
        assert not screen.cursor_visible and screen.lines()[0].startswith(" one  ")
        desk.types(b"i")
        await soon(lambda: shows("you type into one"))
        await soon(lambda: shows("") or screen.cursor_visible)
        assert screen.cursor == (0, 2), "the cursor is where the program has it"
        desk.types(b"hello\n")
        await soon(lambda: shows("got hello"))
        desk.signalled(signal.SIGWINCH)
        await soon(lambda: "\x1b[2J" in desk.written())
        desk.types(b"\x1c")
        await soon(lambda: wall.typing == "")
        desk.types(b"\r")
        assert await running == (JOIN, "one")
    wall = Wall(str(stage.directory), panel, 0x1C, "one")
    running = asyncio.create_task(wall.run())
    await soon(lambda: wall.tiles)
    wall.typing = "one"
    with connected(place) as client:
        await asyncio.to_thread(client.stop, 0.0)
    await soon(lambda: wall.words == "one has ended")
    assert wall.typing == "" and wall.tiles == {}
    desk.signalled(signal.SIGTERM)
    assert await running == ("", "")
