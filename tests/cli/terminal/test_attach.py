"""`treadle attach`: which terminal is joined, and which is not."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Person, Shell
from tests.installed import TREADLE
from tests.terminal.support import connected, until

ASKS = r"printf '\033]7501;state=blocked:kind=permission\033\\'"


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_attach_alone_joins_the_only_one_or_the_one_that_is_chosen(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.ended("gone")
    assert here.run("attach") == (1, "", "No active sessions\n  `treadle run -- COMMAND` starts one\n")
    here.stage.start("cat", id="x")
    assert "attach needs a terminal" in here.run("attach")[2] and "tail -f x" in here.run("attach")[2]
    here.stage.start("cat", id="longer")
    code, out, err = here.run("attach")
    assert (code, out) == (2, "") and "which one? longer, x;" in err
    for answer, chosen in (("2\n", "x"), ("1\n", "longer"), ("x\n", "x"), ("0\n3\n longer \n", "longer")):
        monkeypatch.setattr(sys, "stdin", Keyboard(answer))
        code, out, err = here.run("attach")
        assert code == 1 and f"tail -f {chosen}" in err
        first, second, asked = out.splitlines()
        assert first.startswith("  1  longer  ") and second.startswith("  2  x       ")
        assert asked == "Which one? " * answer.count("\n")
    monkeypatch.setattr(sys, "stdin", Keyboard("neither\n"))
    code, _, err = here.run("attach")
    assert code == 2 and "no one chose one" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x", "y"), "expected one id"),
        (("x", "--next-waiting"), "--next-waiting chooses the terminal"),
        (("--read-only", "--next-waiting"), "--next-waiting chooses the terminal"),
    ],
)
def test_what_is_typed_wrongly_is_refused(here: Here, words: tuple[str, ...], says: str) -> None:
    code, out, err = here.run("attach", *words)
    assert (code, out) == (2, "") and says in err


def test_a_terminal_is_not_attached_to_itself(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "60", "--", TREADLE, "attach", "x")
    until(lambda: "this is the terminal x" in shell.written("x"))


def test_options_and_settings_decide_how_it_is_joined(
    here: Here, person: Callable[..., Person], tmp_path: Path
) -> None:
    place = here.stage.start("cat", id="x")
    (tmp_path / "c.toml").write_text("detach_key = 1\n")
    watcher = person("attach", "x", "--read-only", "--config", str(tmp_path / "c.toml"))
    writer = person("attach", "x", "--bar")
    writer.sees("[treadle] x")
    with connected(place) as client:
        until(lambda: sum(bool(entry["read_only"]) for entry in client.detail()["clients"]) == 1)
    writer.types(b"hello\r")
    assert "[treadle]" not in watcher.sees("hello")
    watcher.types(b"\x01")
    assert watcher.leaves() == 0 and "detached from session x" in watcher.sees("detached")
    writer.types(b"\x04")
    assert writer.leaves() == 0


def test_a_person_goes_from_question_to_question(here: Here, person: Callable[..., Person]) -> None:
    assert here("attach", "--next-waiting") == "[no terminal waits for a person]\n"
    for name in ("one", "two", "three"):
        script = f"echo may {name} go on?; {ASKS}; read a; {ASKS.replace('blocked', 'working')}; cat"
        place = here.stage.start("sh", "-c", script, id=name)
        with connected(place) as client:
            until(lambda client=client: client.detail()["state"]["name"] == "permission")
    me = person("attach", "--next-waiting", cols=100, rows=30)
    me.sees("may one go on?")
    me.types(b"yes\r")
    me.sees("may two go on?")
    me.types(b"\x1c")
    me.sees("may three go on?")
    me.types(b"no\r")
    assert me.leaves() == 0
    assert "[three asks: permission]" in me.sees("[no other terminal waits for a person; left for later: two]")
