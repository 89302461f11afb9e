"""An answer reaches the dialog that its sender has read, or nothing: whoever else answers, and whenever."""

import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.installed import treadle
from tests.terminal.support import Stage, connected, until
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire

ASKING = """
import os, random, sys, time, tty
chance, count, alike = random.Random(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "alike"
tty.setraw(0)
for number in range(count):
    command = "again" if alike else f"step {number};"
    lines = ["• Let me run that.", "  Would you like to run the following command?", "", "  $ " + command, ""]
    lines += ["› 1. Yes, proceed (y)", "  2. No (esc)", "", "  Press enter to confirm or esc to cancel"]
    os.write(1, ("\\x1b[2J\\x1b[H" + "\\r\\n".join(lines)).encode())
    key = os.read(0, 1)
    os.write(9, f"{number} {key.decode()}\\n".encode())
    if chance.random() < 0.5:
        os.write(1, "\\x1b[2J\\x1b[H• Working (1s • esc to interrupt)".encode())
        time.sleep(chance.choice([0, 0.02, 0.2]))
os.write(1, b"\\x1b[2J\\x1b[HIt is over.")
os.read(0, 1)
"""


@pytest.fixture
def asking(stage: Stage, tmp_path: Path) -> Callable[..., tuple[Place, Path]]:
    """Starts a program that looks like Codex and asks one thing after the other; what it is told is in a file."""

    def start(count: int, alike: str = "different", seed: int = 0) -> tuple[Place, Path]:
        log, program, code = tmp_path / "told", tmp_path / "codex", tmp_path / "asking.py"
        log.touch()
        code.write_text(ASKING)
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -ISu {code} {seed} {count} {alike} 9>>{log}\n")
        program.chmod(0o700)
        place = stage.start(str(program), cols=80, rows=24)
        until(lambda: dialog(place))
        return place, log

    return start


def state(place: Place) -> dict[str, Any]:
    with connected(place) as client:
        found: dict[str, Any] = client.detail()["state"]
        return found


def dialog(place: Place) -> str:
    found = state(place)
    return "" if found["settling"] or not found["waiting_for"] else found["dialog"]


def send(place: Place, *words: str) -> tuple[int, str]:
    """`treadle send`, from a shell of its own."""
    where = ("--socket-dir", place.directory)
    done = treadle("send", *where, place.id, *words, start_new_session=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("seed", range(2))
def test_of_many_answers_at_once_none_runs_a_command_that_its_sender_has_not_read(
    asking: Callable[..., tuple[Place, Path]], seed: int
) -> None:
    count = 12
    place, log = asking(count, seed=seed)
    typed: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    over = threading.Event()

    def answer(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        with connected(place) as client:
            while not over.is_set():
                read = client.detail()["state"]
                over.wait(chance.choice([0, 0, 0.01, 0.1]))
                if read["dialog"]:
                    told = client.type_in(b"y", wire.ANSWERS, read["dialog"])
                    (typed if told["typed"] else refused)[read["message"] if told["typed"] else told["why"]] += 1

    def stop_and_go() -> None:
        chance = random.Random(seed)
        while not over.wait(chance.uniform(0, 0.2)):
            os.killpg(place.pids()[1], signal.SIGSTOP)
            over.wait(chance.uniform(0, 0.3))
            os.killpg(place.pids()[1], signal.SIGCONT)

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(6)]
    threads.append(threading.Thread(target=stop_and_go))
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(log.read_text().splitlines()) == count, "all dialogs to be answered", 200)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert log.read_text() == "".join(f"{number} y\n" for number in range(count))
    for number in range(count):
        assert [times for message, times in typed.items() if f"$ step {number};" in message] == [1]
    assert set(refused) <= {"changed", "answered", "settling", "no question"} and refused


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
