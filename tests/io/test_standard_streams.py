"""Standard streams that were closed by the one who started us."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from treadle.io.standard_streams import fill_gaps
fill_gaps()
opened = os.open("/dev/zero", os.O_RDONLY)
assert opened > 2, opened
assert os.read(0, 1) == b"", "stdin should have ended"
print("lost", file=sys.stderr)
try:
    os.write(1, b"heard")
except OSError:
    os.write(2, b"stdout cannot be written")
"""


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        ("<&-", b"heard", b"lost\n"),
        (">&-", b"", b"lost\nstdout cannot be written"),
        ("2>&-", b"heard", b""),
        ("<&- >&- 2>&-", b"", b""),
    ],
)
def test_no_file_takes_the_place_of_a_stream_that_is_missing(closed: str, out: bytes, err: bytes) -> None:
    given = "" if "<" in closed else "</dev/null"
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {given} {closed}', sys.executable, SCRIPT], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


def test_a_pipe_that_nobody_reads_does_not_hold_up_whoever_writes_to_stderr() -> None:
    code = (
        "from treadle.io.standard_streams import never_wait_for_stderr\n"
        "import sys\n"
        "never_wait_for_stderr()\n"
        "for _ in range(10_000): print('a warning ' * 20, file=sys.stderr, flush=True)\n"
        "print('done')"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.read() == b"done\n"
        assert child.stderr.read().startswith(b"a warning ")
