"""Work that is handed to a warm parent: with the surroundings of who asks."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import treadle
from tests.conftest import need
from tests.terminal.support import alive, until
from tests.waiting import stop
from treadle.io.process import table
from treadle.io.process import warm as warming

ASK = """
import os, sys
from treadle.io.process import warm
warm.PATIENCE = float(os.environ.get("PATIENCE", 50))  # a busy machine may need more than the usual two seconds
start = ["subprocess"] if sys.argv[2:] else ()
print(warm.run("subprocess", "call", [["sh", "-c", sys.argv[1]]], start=start, name="".join(sys.argv[3:])))
"""


class Warm:
    """Callers with a warm parent of their own."""

    def __init__(self, home: Path, source: Path) -> None:
        self.home = home
        self.source = source

    def ask(
        self, script: str, *start: str, seconds: str = "60", before: Sequence[str] = (), **more: object
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "TREADLE_WARM": seconds, "PYTHONPATH": str(self.source), "TOLD": "by me"}
        command = [*before, sys.executable, "-c", ASK, script, *start]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]

    def parents(self) -> list[int]:
        """The warm parents without their copies, one of which may still be ending after its caller got the answer."""
        found = {process.pid: process.parent for process in table.processes() if process.name == "treadle-warm"}
        own = [pid for pid, parent in found.items() if parent not in found]
        return [pid for pid in own if any(str(self.home) in word for word in table.command_line(pid))]


@pytest.fixture
def warm(state_home: Path) -> Iterator[Warm]:
    found = Warm(state_home, Path(treadle.__file__).parents[1])
    yield found
    for pid in found.parents():
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
        until(lambda pid=pid: not alive(pid))


def test_without_one_and_unless_told_to_start_it_nothing_is_done(warm: Warm) -> None:
    assert warm.ask("echo done").stdout == "None\n"
    assert warm.parents() == []


def test_whoever_asks_for_none_gets_none(warm: Warm) -> None:
    assert warm.ask("echo done", "start", seconds="0").stdout == "None\n"
    assert warm.parents() == []


def test_when_it_was_killed_the_next_starts_another(warm: Warm) -> None:
    assert warm.ask("true", "start").stdout == "0\n"
    (before,) = warm.parents()
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(before))
    assert warm.ask("true").stdout == "None\n"
    assert warm.ask("true", "start").stdout == "0\n"
    assert before not in warm.parents() and len(warm.parents()) == 1


def test_one_that_does_not_answer_is_not_waited_for_and_does_nothing_later(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warm.ask("true", "start").stdout == "0\n"
    (pid,) = warm.parents()
    stop(pid)
    late = tmp_path / "late"
    monkeypatch.setenv("PATIENCE", "0.5")
    assert warm.ask(f"echo x > {late}").stdout == "None\n"
    monkeypatch.delenv("PATIENCE")
    os.kill(pid, signal.SIGCONT)
    assert warm.ask("true").stdout == "0\n"  # it is served after the other
    assert not late.exists()


def test_of_two_that_start_one_at_once_both_are_served(warm: Warm) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    command = [sys.executable, "-c", ASK, "true", "start"]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate(timeout=60)[0] for each in both] == ["0\n", "0\n"]
    until(lambda: len(warm.parents()) == 1)


@pytest.mark.parametrize(("value", "seconds"), [(None, 60.0), ("5", 5.0), ("0", 0.0), ("-3", 0.0), ("soon", 60.0)])
def test_how_long_an_idle_one_is_kept(monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float) -> None:
    monkeypatch.delenv("TREADLE_WARM")
    if value is not None:
        monkeypatch.setenv("TREADLE_WARM", value)
    assert warming.idle() == seconds


def test_each_name_and_each_library_has_its_own_address(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, named = warming.address(), warming.address("one")
    assert os.path.dirname(plain) == str(state_home / "treadle" / "warm") and plain == warming.address() != named
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert warming.address() not in (plain, named)


def test_what_is_asked_is_done_with_the_surroundings_of_who_asks(warm: Warm, tmp_path: Path) -> None:
    done = warm.ask("pwd; echo $TOLD; umask; cat; exit 3", "start", cwd=tmp_path, umask=0o027, input="typed\n")
    assert done.stdout.split("\n") == [str(tmp_path), "by me", "0027", "typed", "3", ""]
    again = warm.ask("echo more; echo wrong >&2", cwd="/")
    assert again.stdout == "more\n0\n" and again.stderr == "wrong\n"
    (parent,) = warm.parents()
    assert os.readlink(f"/proc/{parent}/cwd") == "/" and "TOLD=by me" not in table.command_line(parent)
    assert Path(f"/proc/{parent}/comm").read_text() == "treadle-warm\n"


def test_it_lets_go_when_its_socket_is_removed_and_nobody_has_asked(warm: Warm) -> None:
    # On a busy machine it may have ended before it was asked: then the next call starts another.
    until(lambda: warm.ask("true", "start", seconds="0.5").stdout == "0\n")
    until(lambda: warm.parents() == [])
    assert list((warm.home / "treadle" / "warm").glob("*.sock")) == []


def test_it_leaves_when_a_file_it_has_loaded_was_changed(warm: Warm, tmp_path: Path) -> None:
    shutil.copytree(Path(treadle.__file__).parent, tmp_path / "src" / "treadle")
    warm.source = tmp_path / "src"
    assert warm.ask("true", "start").stdout == "0\n"
    (before,) = warm.parents()
    os.utime(warm.source / "treadle" / "io" / "process" / "warm.py", (1, 1))
    assert warm.ask("true").stdout == "None\n"
    until(lambda: not alive(before))


SPAWN = """
import sys
from concurrent.futures import ThreadPoolExecutor
from treadle.io.process import warm
warm.PATIENCE = 50
warm.run("subprocess", "call", [["true"]], start=["subprocess"])
print(sum(warm.spawn("subprocess", "call", [["sh", "-c", f"echo x >> {sys.argv[1]}"]], []) for _ in range(30)))
"""


def test_what_lives_on_by_itself_is_started_exactly_once(warm: Warm, tmp_path: Path) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    command = [sys.executable, "-c", SPAWN, str(tmp_path / "lines")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "30\n", done.stderr
    until(lambda: (tmp_path / "lines").read_text() == "x\n" * 30)


@pytest.mark.parametrize("wrap", [["--no-new-privs"], ["--bounding-set=-all"], ["--groups=12345"]])
def test_who_is_confined_otherwise_is_not_served(warm: Warm, wrap: list[str]) -> None:
    if os.geteuid() != 0 and wrap != ["--no-new-privs"]:
        return  # only root can give up these
    assert warm.ask("true", "start").stdout == "0\n" == warm.ask("true").stdout
    assert warm.ask("true", before=[need("setpriv"), *wrap]).stdout == "None\n"


def test_signals_that_its_caller_ignores_or_blocks_stay_so(warm: Warm) -> None:
    def before() -> None:
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})

    said = warm.ask("grep -E '^Sig(Ign|Blk)' /proc/$PPID/status", "start", preexec_fn=before).stdout.splitlines()
    blocked, ignored = (int(line.split()[1], 16) for line in said[:2])
    assert ignored >> signal.SIGUSR2 - 1 & 1 and blocked >> signal.SIGWINCH - 1 & 1
    assert not ignored >> signal.SIGUSR1 - 1 & 1


def test_those_of_a_name_are_sent_away_and_no_others(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warm.ask("true", "start").stdout == warm.ask("true", "start", "named").stdout == "0\n"
    monkeypatch.setenv("PYTHONPATH", str(warm.source))
    both, (sent,) = warm.parents(), warming.dismiss("named")
    until(lambda: warm.parents() == [pid for pid in both if pid != sent])
    assert len(both) == 2 and warming.dismiss("named") == []
