"""Texts submitted to a program that may be stopped, slow, or about to ask something."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.support import Stage, connected, until
from tests.waiting import stop
from treadle.errors import PeerStalled, TimedOut
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.terminal.typing import ENDS
from treadle.wire.terminal import frames as wire

ROOT = Path(__file__).parents[2]
AGENT = r"""
import os, sys, tty
tty.setraw(0)
RULE = "\u2500" * 60
DIALOG = [RULE, "Do you want to proceed?", "\u276f 1. Yes", "", "Esc to cancel \u00b7 Tab to amend"]
asks, met, text, above, log = False, False, "", [], open(sys.argv[1], "a", buffering=1)
while True:
    lines = DIALOG if asks else [RULE, "\u276f " + text, RULE, "  ? for shortcuts"]
    os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join([*above, *lines])).encode())
    for letter in os.read(0, 4096).decode():
        if asks:
            print("answered", repr(letter), file=log)
            asks = False
        elif letter == "\r":
            print("given", text, file=log)
            asks, above, text = "ask" in text, [*above, "\u276f " + text, "\u25cf Done."], ""
        elif letter == "?" and not met:
            asks = met = True
        elif letter in "\x05\x15":
            text = ""
        else:
            text += letter
"""


@pytest.fixture
def agent(stage: Stage, tmp_path: Path) -> Place:
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable} -ISu\n{AGENT}")
    program.chmod(0o700)
    place = stage.start(str(program), str(tmp_path / "log"), cols=80, rows=24)
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "idle")
    return place


def given(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def end_of(client: Client, answer: dict[str, Any], *stages: str) -> dict[str, Any]:
    while answer["stage"] not in (*stages, *ENDS):
        answer = client.prompted()
    assert answer["stage"] in stages, answer
    return answer


def stop_program(place: Place) -> int:
    pid = place.pids()[1]
    stop(pid)
    return pid


def test_a_prompt_is_followed_to_the_end_of_its_own_turn(agent: Place, tmp_path: Path) -> None:
    with connected(agent) as client:
        for turn in (1, 2):
            answer = end_of(client, client.prompt(b"tidy up"), "over")
            assert (answer["turn"], answer["confirmed"]) == (turn, True)
    assert given(tmp_path) == ["given tidy up"] * 2


def test_a_text_whose_sender_has_given_up_before_it_was_read_is_not_typed(agent: Place, tmp_path: Path) -> None:
    supervisor = agent.pids()[0]
    with connected(agent) as client:
        client.hello()
        stop(supervisor)
        client.until = time.monotonic() + 0.5
        with pytest.raises(PeerStalled):
            client.prompt(b"too late")
    os.kill(supervisor, signal.SIGCONT)
    with connected(agent) as client:
        end_of(client, client.prompt(b"tidy up"), "over")
    assert given(tmp_path) == ["given tidy up"]


def test_enter_waits_until_the_text_is_seen_in_the_box(agent: Place, tmp_path: Path) -> None:
    pid = agent.pids()[1]
    with connected(agent) as client:
        answer = client.prompt(b"tidy up")
        stop(pid)  # whatever has been typed by now, more is typed only when it runs again
        while answer["stage"] not in ENDS:
            try:
                answer = client.prompted(time.monotonic() + 0.5)
            except TimedOut:
                os.kill(pid, signal.SIGCONT)
        assert answer["stage"] == "over", answer
    assert given(tmp_path) == ["given tidy up"]


def test_a_stopped_program_is_not_idle_and_gets_nothing_typed(agent: Place, tmp_path: Path) -> None:
    pid = stop_program(agent)
    with connected(agent) as client:
        answer = end_of(client, client.prompt(b"tidy up"), "refused")
        assert answer["why"] in ("stopped", "unknown")
        until(lambda: client.detail()["state"]["name"] == "unknown")
        assert "stopped" in client.detail()["state"]["why"]["said"]
        os.kill(pid, signal.SIGCONT)
        until(lambda: client.detail()["state"]["name"] == "idle")
    assert given(tmp_path) == []


def test_a_queued_text_that_met_a_dialog_is_typed_again_when_that_is_over(agent: Place, tmp_path: Path) -> None:
    with connected(agent) as client, connected(agent) as person:
        person.hello()
        answer = client.prompt(b"really?", wire.WHEN_IDLE | wire.REPLACE)
        until(lambda: person.type_in(b"1", wire.ANSWERS)["typed"])
        end_of(client, answer, "over")
    assert given(tmp_path) == ["answered '1'", "given really?"]


def test_a_dialog_that_comes_while_the_text_is_typed_is_not_answered(agent: Place, tmp_path: Path) -> None:
    with connected(agent) as client:
        answer = end_of(client, client.prompt(b"really?"), "unseen")
        assert answer["why"] == "permission"
        assert client.detail()["state"]["name"] == "permission"
    assert given(tmp_path) == []


def test_a_turn_that_asks_is_told_and_the_next_text_waits_for_its_end(agent: Place, tmp_path: Path) -> None:
    with connected(agent) as client, connected(agent) as other:
        answer = end_of(client, client.prompt(b"ask me"), "taken")
        while answer["why"] != "permission":
            answer = client.prompted()
        assert answer["confirmed"] and answer["state"]["message"]
        queued = other.prompt(b"next", wire.WHEN_IDLE)
        assert queued["stage"] == "queued"
        assert end_of(client, client.prompt(b"push in"), "refused")["why"] == "permission"
        other.type_in(b"1")
        end_of(other, queued, "over")
    assert given(tmp_path) == ["given ask me", "answered '1'", "given next"]


def test_what_is_queued_outlives_the_one_who_sent_it(agent: Place, tmp_path: Path) -> None:
    pid = stop_program(agent)
    with connected(agent) as client:
        client.prompt(b"later", wire.WHEN_IDLE)
    os.kill(pid, signal.SIGCONT)
    until(lambda: given(tmp_path) == ["given later"])


def test_sends_at_random_moments_to_agents_that_are_stopped_approve_join_and_misstate_nothing(tmp_path: Path) -> None:
    """A short one; `make soak-terminals` has two thousand sends and longer stops."""
    command = [sys.executable, "-m", "tests.terminal.random_sends", "5", "15", "3", "0.4", str(tmp_path / "s")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    found = json.loads(done.stdout or "{}")
    assert (found.get("sends"), found.get("violations")) == (15, []), done.stdout + done.stderr
