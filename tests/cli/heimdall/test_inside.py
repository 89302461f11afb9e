"""Commands inside a sandbox without the way out: a hook refuses the call, and nothing is done here instead."""

import io
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import git
from treadle.cli.heimdall import dispatch
from treadle.coordination import relay
from treadle.coordination.relay import LARGEST, LISTENING, answer
from treadle.errors import ConfigError

WRITE = {"tool_name": "Write", "tool_input": {"file_path": "src/a/x"}, "hook_event_name": "PreToolUse"}


def given(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_hook_that_cannot_ask_outside_refuses_the_call(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, json.dumps(WRITE).encode())
    code = dispatch.relay("hook", ["claude"], str(project))
    text = "".join(capsys.readouterr())
    assert code == 2 or '"deny"' in text, "a program lets a call go on when its hook only fails"


def test_input_without_end_is_not_passed_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, b"x" * LARGEST)
    with pytest.raises(ConfigError, match="MiB, the limit for requests"):
        dispatch.relay("validate", [], str(project))


class Outside:
    """Our process outside: notes each request, and answers as it was told to."""

    def __init__(self, path: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                with sock:
                    data = b""
                    while not data.endswith(b"\n"):
                        data += sock.recv(1 << 16)
                    self.asked.append(json.loads(data))
                    answer = self.answers.pop(0)
                    sock.sendall(answer)
                    while answer == LISTENING and (more := sock.recv(1 << 16)):
                        sock.sendall(more.upper())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(50)
        self._listener.close()


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    made = Outside(tmp_path / "relay")
    monkeypatch.setattr(relay, "RELAY", str(tmp_path / "relay"))
    yield made
    made.close()


def test_what_is_about_to_be_committed_is_found_out_here_and_told(
    outside: Outside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "src" / "a" / "b.ts").write_text("changed\n")
    git(project, "add", ".")
    outside.answers = [answer(0, b"", b"")] * 4
    assert dispatch.relay("claim", ["guard", "pre-commit"], str(project)) == 0
    for words in (["guard"], ["guard", "status"]):
        dispatch.relay("claim", words, str(project))
    given(monkeypatch, json.dumps({**WRITE, "tool_input": {"command": "git commit"}}).encode())
    assert dispatch.relay("hook", ["claude"], str(project)) == 0
    changed = [asked.get("changed") for asked in outside.asked]
    assert changed[0] and changed[0][0]["files"] == ["src/a/b.ts"] and changed[1:3] == [None, None]
    assert changed[3] == [{"by": "", "files": ["src/a/b.ts"]}] and "git commit" in outside.asked[3]["stdin"]


def test_a_hook_that_failed_outside_refuses_the_call_and_says_why(
    outside: Outside, project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, json.dumps(WRITE).encode())
    outside.answers = [answer(2, b"never shown", b"it broke\n")]
    assert dispatch.relay("hook", ["claude"], str(project)) == 0
    out = capfd.readouterr().out
    assert "never shown" not in out and json.loads(out)["decision"] == "block" and "it broke" in out
    assert "changed" not in outside.asked[0]
