"""The example clients, run as the guide says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.scripts import calls, says

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
MODEL = calls("bash", {"command": "COMMAND"}, text="Looking.") + says("Done looking.")


def start(language: str, model: str, folder: Path, message: str = "Look.") -> "subprocess.Popen[str]":
    command = [sys.executable, "worker_client.py"] if language == "python" else [need("node"), "worker_client.mjs"]
    command[1] = str(EXAMPLES / command[1])
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.Popen(
        [*command, model, message],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("language", ["python", "node"])
def test_an_example_client_shows_the_answer(language: str, tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(MODEL.replace("COMMAND", "echo hi"))
    with start(language, "scripted:model.toml", tmp_path) as client:
        shown, errors = client.communicate(timeout=60)
    assert (client.returncode, errors) == (0, "")
    assert shown.startswith('Looking.\n[bash {"command":') and "Done looking.\n(2 model calls" in shown


@pytest.mark.parametrize(("language", "said"), [("python", "the worker exited with code 3"), ("node", "worker ended")])
def test_an_example_client_says_that_the_worker_has_ended_under_it(language: str, said: str, tmp_path: Path) -> None:
    worker = tmp_path / "treadle-worker"
    worker.write_text("#!/bin/sh\nexec <&-\nexit 3\n")
    worker.chmod(0o755)
    more_than_a_pipe_holds = "Look. " * 20_000
    with start(language, "vendor/model", tmp_path, more_than_a_pipe_holds) as client:
        _, errors = client.communicate(timeout=60)
    assert client.returncode == 1 and said in errors and "Error" not in errors


@pytest.mark.parametrize("language", ["python", "node"])
def test_an_example_client_cancels_on_interrupt(language: str, tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(MODEL.replace("COMMAND", "sleep 1238"))
    with start(language, "scripted:model.toml", tmp_path) as client:
        assert client.stdout is not None
        while "sleep 1238" not in client.stdout.readline():
            pass
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=60)
    assert client.returncode == 1 and "cancelled: cancelled" in errors
