"""Standard streams that were closed by the one who started us."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.descriptors import opened
from treadle.io.standard_streams import fill_gaps, forget, never_wait_for_stderr

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


def test_streams_that_python_lacks_are_there_afterwards_and_no_character_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    fill_gaps()
    made = sys.stdin, sys.stdout, sys.stderr
    assert [each.name for each in made] == [os.devnull] * 3 and sys.stdin.read() == ""
    assert sys.stdout.writable() and sys.stderr.writable()
    for each in made:
        each.close()
    data = io.BytesIO()
    given = io.TextIOWrapper(data, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", given)
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(sys, "stderr", given)
    fill_gaps()
    assert sys.stdout is sys.stdin is sys.stderr is given
    print("caf\u00e9", file=sys.stdout, flush=True)
    assert data.getvalue() == b"caf?\n"


def test_what_is_connected_to_nothing_is_lost_and_at_its_end(tmp_path: Path) -> None:
    read, write = os.pipe()
    (tmp_path / "file").write_bytes(b"content")
    file = os.open(tmp_path / "file", os.O_RDONLY)
    before = {number for number, _ in opened()}
    forget(write, file)
    assert os.write(write, b"lost") == 4 and os.read(file, 10) == b"" and os.read(read, 1) == b""
    assert {number for number, _ in opened()} == before
    for fd in (read, write, file):
        os.close(fd)


def test_only_a_pipe_as_stderr_is_written_to_without_waiting(tmp_path: Path) -> None:
    usual, kept = sys.stderr, os.dup(2)
    read, write = os.pipe()
    try:
        with open(tmp_path / "log", "w") as log:
            os.dup2(log.fileno(), 2)
            never_wait_for_stderr()
            assert sys.stderr is usual
        os.dup2(write, 2)
        never_wait_for_stderr()
        made = sys.stderr
        assert made is not usual
        os.set_blocking(read, False)
        print("at once", file=made)
        assert os.read(read, 10) == b"at once\n"
        print("x" * 300_000, "\udcff", file=made)
        assert os.read(read, 10) == b"x" * 10 and os.get_blocking(write)
        made.close()
    finally:
        os.dup2(kept, 2)
        for fd in (kept, read, write):
            os.close(fd)
        sys.stderr = usual
