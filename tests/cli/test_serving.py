"""A protocol on stdin and stdout: the exit code is the work's, or that of the signal that ended it."""

import signal
import subprocess
import sys

import pytest

SERVE = """
import asyncio, sys
from treadle.cli.serving import serve, warner

async def work(stream):
    if sys.argv[1] == "answer":
        await stream.write((await stream.read()).upper())
        warner("name")("careful")
        return 7
    await stream.write(b"ready\\n")
    await asyncio.Event().wait()

sys.exit(serve(work))
"""


def test_it_answers_on_stdout_warns_on_stderr_and_ends_with_the_works_code() -> None:
    argv = [sys.executable, "-c", SERVE, "answer"]
    done = subprocess.run(argv, input="hello", capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("HELLO", "name: careful\n", 7)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_the_code_that_shells_know(signum: signal.Signals) -> None:
    argv = [sys.executable, "-c", SERVE, "wait"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signum)
        assert process.wait(60) == 128 + signum
        assert process.stderr is not None and b"Traceback" not in process.stderr.read()
