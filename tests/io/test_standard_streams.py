"""Standard streams that were closed by whoever started us."""

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
