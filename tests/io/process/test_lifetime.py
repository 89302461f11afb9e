"""How a process of ours ends: quickly, and with nothing lost."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.io.process.test_reaper import in_copy
from treadle.io.process import lifetime

LEAVE = "from treadle.io.process import lifetime; import sys\n"


def run(code: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", LEAVE + code], capture_output=True, text=True, timeout=60, **more
    )


def test_what_is_buffered_is_written_and_the_code_is_the_one_given() -> None:
    done = run("print('out', end=''); sys.stderr.write('err'); lifetime.leave(7)")
    assert (done.stdout, done.stderr, done.returncode) == ("out", "err", 7)


def test_threads_that_are_not_daemons_finish_first() -> None:
    work = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('done'))).start()\n"
    work += "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    assert run(work + "lifetime.leave(0)").stdout == "done\n"


def test_a_log_is_written_to_its_end(tmp_path: Path) -> None:
    log = (
        "import logging.handlers as h, logging\n"
        f"m = h.MemoryHandler(1000, target=logging.FileHandler({str(tmp_path / 'log')!r}))\n"
        "logging.getLogger().addHandler(m); logging.getLogger().warning('last words')\n"
    )
    run(log + "lifetime.leave(0)")
    assert (tmp_path / "log").read_text() == "last words\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_failure_stays_what_it_was_and_complaints_that_nobody_gets_change_nothing() -> None:
    def left(stream: str, code: int, closed: bool = False) -> object:
        with open("/dev/full", "w") as full:
            setattr(sys, stream, full)
            full.close() if closed else full.write("x")
            lifetime.leave(code)

    assert in_copy(lambda: left("stdout", 0)) == 120 and in_copy(lambda: left("stdout", 3)) == 3
    assert in_copy(lambda: left("stderr", 0)) == 0 and in_copy(lambda: left("stdout", 0, closed=True)) == 120
    assert in_copy(lambda: lifetime.leave(-1)) == 255


def test_garbage_is_looked_for_rarely_and_never_in_what_was_loaded() -> None:
    def begun() -> tuple[tuple[int, int, int], bool]:
        gc.unfreeze()
        lifetime.begin()
        lifetime.loaded()
        return gc.get_threshold(), gc.get_freeze_count() > 0

    assert in_copy(begun) == ((50_000, 20, 50), True)


@pytest.mark.parametrize(("value", "code", "words"), [("", 0, ""), ("3", 3, ""), ("'why'", 1, "why\n")])
def test_it_leaves_as_sys_exit_would(value: str, code: int, words: str) -> None:
    done = run(f"try: sys.exit({value})\nexcept SystemExit as ended: lifetime.leave_by(ended)")
    assert (done.returncode, done.stderr) == (code, words)


STANDS = """
import subprocess, sys
from treadle.io.process import lifetime
print(lifetime.parent(), [lifetime.warm_parent()])
with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as other:
    lifetime.stand_for(other.pid, "/socket")
    print(lifetime.parent(), lifetime.warm_parent())
print(lifetime.parent())
"""


def test_who_works_in_the_place_of_another_was_started_by_what_started_that_one() -> None:
    with subprocess.Popen([sys.executable, "-c", STANDS], stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=60)
    assert said.split() == [str(os.getpid()), "['']", str(process.pid), "/socket", "0"]
