"""The server that runs: started once, found, ended with its fleet, its place taken by another."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import msgspec
import pytest

from tests.installed import TREADLE
from treadle.io.process import table
from treadle.serve import background, listening
from treadle.serve.tokens import Tokens, directory


def test_it_answers_when_it_was_started_is_started_once_and_ends(page: background.ServerNote) -> None:
    assert background.start() == page
    assert b"canary" not in Path(f"/proc/{page.pid}/environ").read_bytes(), "it has no key of who started it"
    code = background.link(Tokens(), "watch").rpartition("#")[2]
    with httpx2.Client(base_url=page.address, trust_env=False, timeout=60) as browser:
        assert browser.get("/healthz").text == "ok\n"
        assert browser.post("/login", json={"code": code}, headers={"origin": page.address}).status_code == 200
    assert background.stop() and background.find() is None
    left = table.look(page.pid)
    assert left is None or left.state in "ZX", "it has ended, even if its parent has not asked how"
    assert not background.stop()
    with open(os.path.join(directory(), "server.log")) as log:
        assert log.read() == "", "nothing is logged, least of all a code"


def test_two_who_start_it_at_once_start_one(page: background.ServerNote) -> None:
    background.stop()
    words = [sys.executable, "-P", "-m", "treadle.serve.background", "start"]
    assert [each.wait(60) for each in [subprocess.Popen(words) for _ in range(3)]] == [0, 0, 0]
    pages = [one.pid for one in table.processes() if table.command_line(one.pid)[-1:] == ["treadle.serve.background"]]
    mine = [pid for pid in pages if os.readlink(f"/proc/{pid}/cwd") == directory()]
    assert (found := background.find()) is not None and mine == [found.pid]


def test_it_keeps_its_port_or_says_why_it_has_another(page: background.ServerNote) -> None:
    port = int(page.address.rpartition(":")[2])
    background.stop()
    assert background.start().address == page.address
    background.stop()
    said: list[str] = []
    with socket.create_server(("127.0.0.1", port)):
        url = background.started_link(said.append)
    assert url is not None and not url.startswith(page.address + "/")
    assert "on another port than before" in said[0] and f":{port}: Address already in use" in said[0]


def free() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


@pytest.mark.parametrize("saved", ["", "nonsense", "65536", "²"])
def test_without_a_port_of_last_time_it_is_the_usual_one_and_it_is_remembered(
    saved: str, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "PORT", usual := free())
    path = Path(directory()) / "port"
    path.write_text(saved)
    found, moved = background._listening()
    assert (found.port, moved, path.read_text()) == (usual, "", str(usual))
    taken, why = background._listening()
    assert taken.port != usual and f"on another port than before, {taken.port}: cannot listen on" in why
    found.socket.close()
    taken.socket.close()
    again, moved = background._listening()
    assert (again.port, moved) == (taken.port, "")
    again.socket.close()


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
            assert mine.returncode == 130 and "Stopping the page" in said and "Traceback" not in said
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
