"""Who is told about the state, and when: once for each change, however much is written meanwhile."""

from pathlib import Path

import pytest

from tests.terminal.support import WAIT, Stage, connected, until
from treadle.terminal import history
from treadle.terminal.client import Client
from treadle.wire.terminal import frames as wire

ASKS = r"printf '\033]7501;state=blocked:kind=permission\033\\'; "
WORKS = r"printf '\033]7501;state=working\033\\'; "


def until_told(client: Client, state: str) -> None:
    for message in client.messages(WAIT):
        if isinstance(message, wire.StateFrame) and message.body["name"] == state:
            return


@pytest.mark.parametrize("pause", ["", "sleep 0.01; "])
def test_a_prompt_is_seen_when_the_output_before_it_has_ended(stage: Stage, pause: str) -> None:
    script = f"for i in 1 2 3 4 5 6 7 8 9; do echo line $i; {pause}done; PS1='sh$ ' exec sh -i"
    place = stage.start("sh", "-c", script)
    with connected(place) as client:
        client.hello(wire.WANT_STATES)
        until_told(client, "idle")
    until(lambda: (history.read(place) or {}).get("state") == "idle")


def test_the_summary_follows_the_state_and_goes_with_the_program(stage: Stage) -> None:
    place = stage.start("sh", "-c", f"echo hello; {ASKS}read a; {WORKS}read b; exit 3")
    with connected(place) as client:
        until(lambda: (history.read(place) or {}).get("state") == "permission")
        found = history.read(place)
        assert found and (found["id"], found["pid"], found["alive"]) == (place.id, place.pids()[1], True)
        assert found["command"][0] == "sh" and found["last_line"].startswith("hello")
        client.hello(wire.WANT_STATES)
        client.input(b"\n")
        until_told(client, "thinking")
        assert history.read(place)["state"] == "thinking", "it is written before it is announced"  # type: ignore[index]
        client.prompt(b"later", wire.WHEN_IDLE)
        until(lambda: [prompt["text"] for prompt in (history.read(place) or {}).get("prompts", [])] == ["later"])
        client.input(b"\n")
        until(lambda: not Path(place.summary).exists())
        assert client.detail()["code"] == 3


def test_a_summary_has_the_last_line_soon_after_it_was_written(stage: Stage) -> None:
    place = stage.start("sh", "-c", f"{WORKS}stty -echo; while read line; do echo got $line; done")
    with connected(place) as client:
        until(lambda: (history.read(place) or {}).get("state") == "thinking")
        for word in (b"one", b"two"):
            client.input(word + b"\n")
            until(lambda word=word: (history.read(place) or {}).get("last_line") == f"got {word.decode()}")


def test_each_question_is_notified_with_its_words(stage: Stage, tmp_path: Path) -> None:
    told = tmp_path / "told"
    asks = r"printf '\033]7501;state=blocked:kind=%s:msg=%s\033\\' "
    questions = ("permission cm0=", "permission cm0=", "permission bHM=", "question bHM=")
    script = "read a; ".join(f"{asks}{question}; " for question in questions) + "cat"
    notify = f'echo "$TREADLE_STATE $TREADLE_MESSAGE" >> {told}'
    place = stage.start("sh", "-c", script, notify=notify)
    with connected(place) as client:
        for lines in (["permission rm"], ["permission rm"], ["permission rm", "permission ls"]):
            until(lambda lines=lines: told.exists() and told.read_text().splitlines() == lines)
            client.input(b"\n")
        until(lambda: told.read_text().splitlines() == ["permission rm", "permission ls", "question ls"])
