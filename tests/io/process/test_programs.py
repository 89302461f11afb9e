"""A helper program ends by itself and its output is collected, or it is ended."""

import os
import sys
import threading
from pathlib import Path

import pytest

from tests.descriptors import opened
from treadle.errors import Cancelled, NotFound, TimedOut
from treadle.io import tasks
from treadle.io.process import programs
from treadle.io.process.programs import find_outside, reading_program, run_program
from treadle.io.tasks import heeding


def test_what_it_says_and_its_exit_code_come_back() -> None:
    done = run_program(["sh", "-c", "cat; echo no >&2; exit 3"], stdin=b"yes")
    assert (done.code, done.stdout, done.stderr) == (3, b"yes", b"no\n")
    assert done.complaint == "no"


def test_it_never_reads_our_stdin() -> None:
    assert run_program(["cat"]).stdout == b""


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        run_program(["no-such-program"])
    with pytest.raises(NotFound, match="no such directory"):
        run_program(["true"], cwd="/no/such")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose own programs come first on PATH, as in an activated environment."""
    repository = tmp_path / "w"
    for place in (repository / ".git", repository / "sub", repository / "bin"):
        place.mkdir(parents=True)
    (repository / "bin" / "sh").write_text("#!/bin/sh\necho evil\n")
    (repository / "bin" / "sh").chmod(0o755)
    (repository / "bin" / "only-here").symlink_to("sh")
    monkeypatch.setenv("PATH", f"{repository}/bin:bin::{os.environ['PATH']}")
    return repository


def test_no_program_is_taken_from_the_directory_that_it_is_to_work_in(planted: Path) -> None:
    """An agent may have put the program there, and we would run it outside any sandbox."""
    for cwd in (planted, planted / "sub", planted / "bin"):
        assert run_program(["sh", "-c", "echo good"], cwd=str(cwd)).stdout == b"good\n"
        with pytest.raises(NotFound, match="only-here"):
            run_program(["only-here"], cwd=str(cwd))
    assert run_program(["sh"], cwd="/").stdout == b"evil\n"  # elsewhere, PATH is what a person wants


def test_what_is_in_our_own_environment_counts_also_in_a_workspace(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_outside("only-here", str(planted)) is None
    monkeypatch.setattr(sys, "prefix", str(planted / "bin"))
    assert find_outside("only-here", str(planted)) == str(planted / "bin" / "only-here")


def test_one_that_does_not_end_is_killed_with_its_children() -> None:
    seconds = f"86400.{os.getpid()}"
    with pytest.raises(TimedOut):
        run_program(["sh", "-c", f"sleep {seconds} & wait"], timeout=0.3)
    assert [pid for pid in os.listdir("/proc") if pid.isdigit() and _sleeps(pid, seconds)] == []


def _sleeps(pid: str, seconds: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read() == f"sleep\0{seconds}\0".encode()
    except OSError:
        return False


def test_asking_leaves_no_descriptor_open() -> None:
    before = opened()
    run_program([sys.executable, "-c", "pass"])
    with pytest.raises(NotFound):
        run_program(["there-is-no-such-program"])
    assert opened() - before == set()


def test_output_of_any_length_is_read_as_it_comes_and_the_program_is_gone_afterwards(tmp_path: Path) -> None:
    with reading_program(
        ["sh", "-c", "cat; echo $$ > pid; yes"], cwd=str(tmp_path), env=dict(os.environ), stdin=b"given\n"
    ) as output:
        assert output.readline() == b"given\n"
        assert len(output.read(1 << 20)) == 1 << 20
        pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_reading_ends_when_the_thread_is_told_to_stop(tmp_path: Path) -> None:
    halt = threading.Event()
    with heeding(halt), pytest.raises(Cancelled):
        with reading_program(["sleep", "60"], cwd=str(tmp_path), env=dict(os.environ), stdin=b"") as output:
            halt.set()
            assert output.read() == b""


def test_other_threads_may_distrust_directories_while_path_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "_distrusted", set())
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "own"), *["/usr/bin"] * 200]))
    done = threading.Event()

    def add() -> None:
        number = 0
        while not done.is_set():
            number = (number + 1) % 100
            programs.distrust(str(tmp_path / str(number)))
            if number == 0:
                programs._distrusted.clear()

    adding, interval = threading.Thread(target=add), sys.getswitchinterval()
    adding.start()
    sys.setswitchinterval(1e-6)
    try:
        assert all("own" in programs.path_outside() for _ in range(10))
    finally:
        sys.setswitchinterval(interval)
        done.set()
        adding.join()
    programs.distrust(str(tmp_path))
    assert "own" not in programs.path_outside()


@pytest.mark.parametrize("limited", [False, True])
def test_reading_ends_when_the_time_is_up_and_not_before(tmp_path: Path, limited: bool) -> None:
    def read(script: str, timeout: float) -> bytes:
        argv = ["sh", "-c", script]
        with reading_program(argv, cwd=str(tmp_path), env=dict(os.environ), stdin=b"", timeout=timeout) as output:
            return output.read()

    with tasks.limited(0.05 if limited else None):
        assert read("echo first; sleep 60; echo second", 600.0 if limited else 0.05) == b"first\n"
    assert read(f"sleep {2.5 * programs.LOOK_SECONDS}; echo there", 600.0) == b"there\n"
