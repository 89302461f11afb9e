"""The server that runs: found, and its place taken by another."""

import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.installed import TREADLE
from treadle.errors import NotFound
from treadle.io.process import table
from treadle.serve import background
from treadle.serve.tokens import Tokens


def test_one_of_a_person_takes_its_place_and_is_left_alone(page: background.ServerNote) -> None:
    argv = [TREADLE, "serve", "--port", "0", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as mine:
        try:
            assert mine.stdout is not None
            while "url" not in (line := mine.stdout.readline()):
                assert line, "it ended without a word"
            found = background.find()
            assert found is not None and found.pid == mine.pid and table.look(page.pid) is None
            assert background.start() == found and not background.stop()
            mine.send_signal(signal.SIGINT)
            _, said = mine.communicate(timeout=60)
            assert mine.returncode == 130 and "makes way" in said and "Traceback" not in said
            assert background.find() is None
        finally:
            mine.kill()


def test_a_note_is_believed_only_while_that_very_process_runs(state_home: Path) -> None:
    assert background.find() is None
    with background.noted("http://127.0.0.1:1", "", background=True):
        note = background.find()
        assert note is not None and (note.pid, note.background) == (os.getpid(), True)
        path = Path(background._path())
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(note, start=note.start + 1)))
        assert background.find() is None, "another process has the pid now"
        path.write_text("{broken")
        assert background.find() is None
        path.write_bytes(msgspec.json.encode(note))
    assert not path.exists()


def test_a_server_that_ends_leaves_the_note_of_the_next_one(state_home: Path) -> None:
    with background.noted("http://127.0.0.1:1", ""):
        other = msgspec.structs.replace(background.find(), address="http://127.0.0.1:2")  # type: ignore[type-var]
        Path(background._path()).write_bytes(msgspec.json.encode(other))
    found = background.find()
    assert found is not None and found.address == "http://127.0.0.1:2"


def test_without_a_server_there_is_no_link(state_home: Path) -> None:
    with pytest.raises(NotFound, match="no server runs here"):
        background.link(Tokens(), "all")


def test_ending_it_waits_and_ends_no_process_that_only_has_its_pid(state_home: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        found = table.look(process.pid)
        assert found is not None
        note = background.ServerNote(pid=process.pid, start=found.start, address="")
        background.end(msgspec.structs.replace(note, start=note.start + 1))
        assert process.poll() is None
        background.end(note)
        assert process.wait(60) == -signal.SIGTERM


def test_one_that_does_not_end_when_it_is_told_to_is_killed(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "STOP_SECONDS", 0.0)
    pauses, really = list[float](), time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (pauses.append(seconds), really(seconds)))
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], stdout=-1) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        found = table.look(process.pid)
        assert found is not None
        background.end(background.ServerNote(pid=process.pid, start=found.start, address=""))
        assert process.wait(60) == -signal.SIGKILL and set(pauses) == {0.02}


def test_a_link_leads_to_the_server_that_runs_with_a_code_for_that_right(state_home: Path) -> None:
    with background.noted("http://127.0.0.1:7", "/run/page", moved="it was taken", terminals="/tmp/t"):
        note = background.find()
        assert note is not None and (note.unix, note.background) == ("/run/page", False)
        assert (note.moved, note.terminals) == ("it was taken", "/tmp/t")
        address, _, code = background.link(Tokens(), "answer", "tab").partition("/#")
        made = Tokens().exchange(code)
        assert address == "http://127.0.0.1:7" and made is not None
        assert (made[0].right, made[0].name) == ("answer", "tab")
    assert background.find() is None
