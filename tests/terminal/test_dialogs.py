"""An answer reaches the dialog that its sender has read, or nothing: whoever else answers, and whenever."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.installed import treadle
from tests.terminal import racing_answers
from tests.terminal.racing_answers import dialog, start_asking
from tests.terminal.support import Stage, connected, until
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire


@pytest.fixture
def asking(stage: Stage, tmp_path: Path) -> Callable[..., tuple[Place, Path]]:
    """Starts a program that looks like Codex and asks one thing after the other; what it is told is in a file."""

    def start(count: int, alike: str = "different") -> tuple[Place, Path]:
        return start_asking(stage, tmp_path, count, alike), tmp_path / "told"

    return start


def send(place: Place, *words: str) -> tuple[int, str]:
    """`treadle send`, from a shell of its own."""
    where = ("--socket-dir", place.directory)
    done = treadle("send", *where, place.id, *words, start_new_session=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("programs", "dialogs"), [(1, 6), pytest.param(3, 6, marks=pytest.mark.slow)])
def test_of_many_answers_at_once_none_runs_a_command_that_its_sender_has_not_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], programs: int, dialogs: int
) -> None:
    racing_answers.main(1, programs, dialogs, 0, tmp_path)
    found = json.loads(capfd.readouterr().out)
    assert found["violations"] == [] and found["codes"]["typed"] == programs * dialogs
    assert found["sends"] > programs * dialogs, "several have answered the same dialog"


def test_two_people_who_answer_the_same_dialog_answer_it_once(asking: Callable[..., tuple[Place, Path]]) -> None:
    place, log = asking(3)
    before = dialog(place)
    assert send(place, "--answer", "y")[0] == 0
    until(lambda: log.read_text() == "0 y\n" and dialog(place) not in ("", before))
    code, said = send(place, "--answer", "y")
    assert code == 3 and "which dialog is meant" in said and "$ step 1;" in said and dialog(place) in said
    code, said = send(place, "--answer", "y", "--to", before)
    assert code == 3 and "asks something else now" in said and "$ step 1;" in said and f"--to {dialog(place)}" in said
    assert send(place, "--answer", "y", "--to", dialog(place))[0] == 0
    until(lambda: log.read_text() == "0 y\n1 y\n")


def test_two_dialogs_that_look_alike_are_two(asking: Callable[..., tuple[Place, Path]]) -> None:
    place, log = asking(3, "alike")
    first = dialog(place)
    assert send(place, "--answer", "y", "--to", first)[0] == 0
    second = until(lambda: dialog(place) if dialog(place) != first else "")
    code, said = send(place, "--answer", "y", "--to", first)
    assert code == 3 and "asks something else now" in said
    assert send(place, "--answer", "\\e[B", "--to", second)[0] == 0, "a key that moves the mark"
    until(lambda: log.read_text().startswith("0 y\n1 "))


@pytest.mark.slow
def test_no_second_key_is_typed_while_nothing_has_come_of_the_first(asking: Callable[..., tuple[Place, Path]]) -> None:
    place, log = asking(2)
    os.kill(place.pids()[1], signal.SIGSTOP)
    with connected(place) as client:
        to = client.detail()["state"]["dialog"]
        assert client.type_in(b"y", wire.ANSWERS, to)["typed"]
        until(lambda: not client.detail()["state"]["settling"])
        assert client.type_in(b"y", wire.ANSWERS, to)["why"] == "answered"
        os.kill(place.pids()[1], signal.SIGCONT)
        until(lambda: dialog(place) not in ("", to))
        assert log.read_text() == "0 y\n"


def test_a_dialog_must_be_named_when_somebody_else_is_connected(asking: Callable[..., tuple[Place, Path]]) -> None:
    place, log = asking(2)
    with connected(place) as other:
        other.hello(wire.READ_ONLY)
        assert other.status().alive
        with connected(place) as second:
            assert second.status().alive
            code, said = send(place, "--answer", "y")
            assert code == 3 and "which dialog is meant" in said
    assert log.read_text() == ""
    with connected(place) as ours:
        told = ours.type_in(b"y", wire.ANSWERS)
        assert (told["typed"], told["why"]) == (False, "which"), "this process is older than the dialog"


@pytest.mark.parametrize("words", [("y",), ("1",), ("\x1b",), ("yes",), ("yes", "--enter"), ("--enter",)])
def test_what_is_not_meant_as_an_answer_does_not_answer(
    asking: Callable[..., tuple[Place, Path]], words: tuple[str, ...]
) -> None:
    place, log = asking(1)
    code, said = send(place, *words)
    assert code == 3 and "$ step 0;" in said and f"--answer 1 --to {dialog(place)}" in said
    assert log.read_text() == ""
    with connected(place) as hands:
        hands.input(b"y")
    until(lambda: log.read_text() == "0 y\n")


def test_every_view_shows_the_dialog_and_the_command_that_it_asks_for(
    asking: Callable[..., tuple[Place, Path]],
) -> None:
    place, _ = asking(1)
    found, where = dialog(place), ("--socket-dir", place.directory)
    for words in (("status", place.id), ("ls",), ("peek", place.id)):
        done = treadle(words[0], *where, *words[1:])
        assert found in done.stdout + done.stderr and "$ step 0;" in done.stdout + done.stderr
    for words in (("status", place.id, "--json"), ("ls", "--json"), ("peek", place.id, "--json")):
        body = json.loads(treadle(words[0], *where, *words[1:]).stdout)
        body = body[0] if isinstance(body, list) else body
        assert found in (body.get("dialog"), isinstance(body.get("state"), dict) and body["state"]["dialog"])


def test_a_terminal_of_an_earlier_version_has_no_dialogs_to_name(stage: Stage) -> None:
    place = stage.start("sh", "-c", r"printf '\033]7501;state=blocked:app=x:kind=question\007'; cat")
    with connected(place) as client:
        client.hello()
        client.version = 2
        with pytest.raises(Exception, match="have no ids"):
            client.type_in(b"y", wire.ANSWERS, "1-000000")
