"""A protocol on stdin and stdout: the exit code is the work's, or that of the signal that ended it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SERVE = """
import asyncio, ctypes, sys
from treadle.cli.serving import serve, warner

async def work(stream):
    if sys.argv[1] == "answer":
        await stream.write((await stream.read()).upper())
        warner("name")("careful")
        return 7 + ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE: 1 when others may read its memory
    await stream.write(b"ready\\n")
    await asyncio.Event().wait()

sys.exit(serve(work))
"""


def test_it_answers_on_stdout_warns_on_stderr_and_ends_with_the_works_code() -> None:
    argv = [sys.executable, "-c", SERVE, "answer"]
    done = subprocess.run(argv, input="hello", capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("HELLO", "name: careful\n", 7)


def test_it_logs_where_it_was_told_to(tmp_path: Path) -> None:
    argv, log = [sys.executable, "-c", SERVE, "answer"], f"debug:{tmp_path / 'log'}"
    subprocess.run(argv, input=b"", capture_output=True, env={**os.environ, "TREADLE_LOG": log}, timeout=60)
    assert (tmp_path / "log").exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_the_code_that_shells_know(signum: signal.Signals) -> None:
    argv = [sys.executable, "-c", SERVE, "wait"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signum)
        assert process.wait(60) == 128 + signum
        assert process.stderr is not None and b"Traceback" not in process.stderr.read()
