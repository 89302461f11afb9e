"""The page that belongs to a fleet: started once, ended with it, and never in the way of a person's own."""

import os
import socket
from pathlib import Path

import httpx2
import pytest

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
