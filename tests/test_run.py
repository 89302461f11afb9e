"""The runner of the suite, on small suites of its own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import run
from tests.waiting import until
from treadle.io.process import table

SETTINGS = '[tool.pytest.ini_options]\nmarkers = ["slow: slow"]\n'
FLAKY = """
from pathlib import Path
def test_b():
    place = Path({place!r})
    again = place.exists()
    place.touch()
    assert again, "why"
"""
SLOW = "import pytest\n@pytest.mark.slow\ndef test_s(): assert 'slow'\ndef test_q(): pass\n"
SKIPS = "import pytest\npytest.skip('all of it', allow_module_level=True)\n"
DIES = "import os\ndef test_a(): pass\ndef test_dies(): os.kill(os.getpid(), 9)\n"
WAITS = """
import os, signal, subprocess
from pathlib import Path
def test_w(tmp_path):
    left = subprocess.Popen(["sleep", "600"], env={{"HOME": str(tmp_path)}}, start_new_session=True)
    Path({place!r}).write_text(f"{{os.getpid()}} {{left.pid}}")
    signal.pause()
"""
FAILS = "def test_f(): assert 0\n"
PASSES = "def test_p(): pass\n"


def suite(top: Path, **files: str) -> list[str]:
    """A suite with a room of these files, and the command that runs it."""
    room = top / "tests" / "room"
    room.mkdir(parents=True)
    for name in ("run.py", "reported.py", "__init__.py"):
        shutil.copy(run.TESTS / name, top / "tests")
    (top / "pyproject.toml").write_text(SETTINGS)
    for name, text in files.items():
        (room / f"test_{name}.py").write_text(text.format(place=str(top / name)))
    return [sys.executable, "-m", "tests.run", "room", "--jobs", "2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "tier", "last", "code", "says"),
    [
        ({"a": PASSES, "b": SLOW}, "all", "3 passed, 0 failed, 0 skipped", 0, "room"),
        ({"a": PASSES, "b": SLOW}, "quick", "2 passed, 0 failed, 0 skipped", 0, "room"),
        ({"a": PASSES, "b": SLOW}, "slow", "1 passed, 0 failed, 0 skipped", 0, "room"),
        ({"a": PASSES}, "slow", "0 passed, 0 failed, 0 skipped", 1, ""),
        ({"a": SKIPS}, "all", "0 passed, 0 failed, 1 skipped", 1, "1 skipped"),
        ({"a": FAILS}, "all", "0 passed, 1 failed, 0 skipped", 1, "FAILED tests/room/test_a.py::test_f"),
        ({"a": "import nothing"}, "all", "0 passed, 1 failed, 0 skipped", 1, "No module named 'nothing'"),
        ({"a": FLAKY}, "all", "1 passed, 0 failed, 0 skipped", 0, "FAILED ONCE, then passed: tests/room/test_a.py::t"),
        (
            {f"f{number}": FLAKY for number in range(6)},
            "all",
            "0 passed, 6 failed, 0 skipped",
            1,
            "AssertionError: why",
        ),
        ({"a": DIES}, "all", "1 passed, 1 failed, 0 skipped", 1, "-9 in tests/room/test_a.py::test_dies; its files: "),
    ],
)
def test_the_last_line_and_the_exit_code_say_what_became_of_the_tests(
    tmp_path: Path, files: dict[str, str], tier: str, last: str, code: int, says: str
) -> None:
    command, env = [*suite(tmp_path, **files), "--tier", tier], {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == last and done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout


@pytest.mark.slow
async def test_when_it_is_told_to_end_no_test_goes_on(tmp_path: Path) -> None:
    command, told = suite(tmp_path, a=WAITS), tmp_path / "a"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        await until(lambda: told.exists() and told.read_text())
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 130 and said.splitlines()[-1] == "stopped"
    found = [table.look(int(pid)) for pid in told.read_text().split()]
    assert all(each is None or each.state in "ZX" for each in found), "and nothing that it has left"


def test_every_test_file_is_in_one_part() -> None:
    known = [str(path.relative_to(run.TOP)) for path in run.test_files(run.TESTS)]
    given = [file for part in run.parts_of([], "all") for file in part.files]
    assert sorted(given) == sorted(known) and len(known) > 100
