"""The installed `treadle-sidecar`, which control planes start without arguments."""

import json
import os
import subprocess
import sys
from pathlib import Path

SIDECAR = str(Path(sys.executable).parent / "treadle-sidecar")


def ran(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SIDECAR, *words], input="", capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def test_it_says_hello_first_and_ends_well_when_there_are_no_orders() -> None:
    done = ran()
    first = json.loads(done.stdout.splitlines()[0])
    assert first["t"] == "hello" and done.returncode == 0, done.stderr


def test_an_agent_that_is_not_known_is_named_and_nothing_is_said_on_stdout() -> None:
    done = ran(TREADLE_AGENT="no-such-agent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("treadle-sidecar: ") and "no-such-agent" in done.stderr


def test_without_a_standard_input_there_are_no_orders() -> None:
    done = subprocess.run(["sh", "-c", f"{SIDECAR} <&-"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[0])["t"] == "hello", done.stderr
    assert ran("--nonsense").returncode == 2
