"""A process that is its own keeper: it forks its reaper early, and gives it a command on a terminal later."""

import errno
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import treadle
from tests.io.process.hostile import await_none_left
from tests.terminal.support import until
from treadle.errors import LocalError, NotFound, TimedOut
from treadle.io.process import reaper
from treadle.io.process.tree import Tree, TreeEnd, WaitingReaper, start_request
from treadle.wire.common.framing import FrameSplitter, frame

KEEPER = """
import os, pty, sys, time
from treadle.io.process.tree import fork_reaper
waiting = fork_reaper()
master, slave = os.openpty()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
tree = waiting.start(
    ["sh", "-c", sys.argv[2]], env=dict(os.environ), cwd="/", terminal=slave, inherited=[file],
    afterwards=["/bin/sh", "-c", 'echo "killed: $1" >&3', "sh"],
)
os.close(slave)
def run(what):
    exec(what)
run(sys.argv[3])
"""


def keep(tmp_path: Path, script: str, act: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(treadle.__file__).parents[1])}
    command = [sys.executable, "-c", KEEPER, str(tmp_path / "after"), script, act]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_the_command_has_the_terminal_and_its_end_is_told(tmp_path: Path, mark: str) -> None:
    done = keep(tmp_path, "tty; exit 5", "print(os.read(master, 99)[:8], tree.wait(50), tree.stop().left)")
    assert done.stdout == "b'/dev/pts' 5 []\n", done.stderr
    assert (tmp_path / "after").read_text() == ""


def test_when_the_keeper_is_killed_its_tree_is_ended_and_then_the_program_runs_that_comes_afterwards(
    tmp_path: Path, mark: str
) -> None:
    deaf = "trap '' TERM HUP; echo up; while :; do sleep 1; done"
    done = keep(tmp_path, deaf, "os.read(master, 99); os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL
    assert await_none_left(mark) == []
    deadline = time.monotonic() + 50
    while not (tmp_path / "after").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    word, pids = (tmp_path / "after").read_text().split(" ")
    assert word == "killed:" and all(part.isdigit() for part in pids.strip().split(","))


@pytest.mark.parametrize("turn", range(5))
def test_what_comes_afterwards_runs_when_the_tree_ends_before_its_killed_keeper_has_quite_ended(
    turn: int, tmp_path: Path, mark: str
) -> None:
    many = "[os.pipe() for _ in range(200)]"  # the terminal hangs up while the keeper still has to close all of these
    act = f"tree.await_started(); before = {many}; high = os.dup(master); os.close(master); after = {many}"
    assert keep(tmp_path, "exec cat", f"{act}; os.kill(os.getpid(), 9)").returncode == -signal.SIGKILL
    until(lambda: (tmp_path / "after").read_text().startswith("killed:"))


def test_a_tree_can_be_left_alone(tmp_path: Path, mark: str) -> None:
    act = "tree.await_started(); tree.leave(); os.waitpid(tree.reaper, 0); os.kill(tree.pid, 0); os.kill(tree.pid, 9)"
    done = keep(tmp_path, "trap '' HUP; exec sleep 60", f"{act}; print(os.waitpid(tree.pid, 0)[1])")
    assert done.stdout == "9\n", done.stderr


def test_an_order_that_comes_together_with_the_command_is_obeyed(tmp_path: Path, mark: str) -> None:
    done = keep(tmp_path, "sleep 60", "tree.ask_stop(0); print(tree.wait(50))")
    assert done.stdout == "-9\n", done.stderr


def test_a_group_can_be_signalled(tmp_path: Path, mark: str) -> None:
    act = "os.read(master, 9); tree.signal(15, group=True); print(tree.wait(50)); tree.stop()"
    done = keep(tmp_path, "sleep 60 & echo up; wait", act)
    assert done.stdout == "-15\n", done.stderr


def test_a_reaper_that_never_gets_a_command_ends_with_its_keeper(tmp_path: Path, mark: str) -> None:
    code = "from treadle.io.process.tree import fork_reaper; print(fork_reaper().pid)"
    env = {**os.environ, "PYTHONPATH": str(Path(treadle.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert await_none_left(mark) == []


class Reaping:
    """The other end of a tree: what a reaper would report, and what it is asked to do."""

    def __init__(self, *argv: str, sweep: Callable[[int], bool] | None = None) -> None:
        ours, self.end = socket.socketpair()
        self.tree = Tree(ours, [*argv], sweep) if sweep else Tree(ours, [*argv])

    def report(self, kind: int, content: object) -> None:
        self.end.send(frame(kind, marshal.dumps(content)))
        self.tree.update()

    def asked(self) -> list[tuple[int, object]]:
        found = FrameSplitter().feed(self.end.recv(65536))
        return [(item[0], marshal.loads(item[1])) for item in found if isinstance(item, tuple)]


@pytest.fixture
def reaping() -> Iterator[Callable[..., Reaping]]:
    made: list[Reaping] = []

    def make(*argv: str, sweep: Callable[[int], bool] | None = None) -> Reaping:
        made.append(Reaping(*argv, sweep=sweep))
        return made[-1]

    yield make
    for each in made:
        each.tree.close()
        each.end.close()


Make = Callable[..., Reaping]
GONE = {"ended": [(7, "sh", 15)], "killed": [(8, "deaf")], "left": [], "seconds": 1.5}


def test_a_tree_knows_what_its_reaper_has_reported(reaping: Make) -> None:
    one = reaping("sh", "-c", "x")
    assert repr(one.tree) == "<tree 0 'sh' running>" and one.tree.fileno() >= 0
    assert (one.tree.pid, one.tree.exit_code, one.tree.report, one.tree.ended) == (0, None, None, False)
    assert one.tree.processes() == []
    body = frame(reaper.STARTED, marshal.dumps({"pid": 7, "reaper": 6, "start": 1}))
    one.end.send(body[:5])
    one.tree.update()
    assert one.tree.pid == 0
    one.end.send(body[5:])
    one.tree.await_started()
    assert (one.tree.pid, one.tree.reaper, one.tree.ended) == (7, 6, False)
    one.report(200, "not known")
    one.report(reaper.EXITED, 0)
    assert one.tree.wait(0) == 0 and repr(one.tree) == "<tree 7 'sh' exited 0>" and not one.tree.ended
    one.report(reaper.GONE, GONE)
    assert one.tree.ended and one.tree.conclude() is one.tree.report and one.tree.fileno() < 0
    assert repr(one.tree) == "<tree 7 'sh' <ended: 1 asked, 1 killed, 0 left, 1.50 s>>"
    assert one.tree.report is not None and one.tree.report.confirmed and one.tree.report.killed == [(8, "deaf")]
    one.tree.ask_stop()
    one.tree.signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("doing", "number", "kind", "says", "hint"),
    [
        ("enter", errno.ENOENT, NotFound, "cannot start sh: its working directory: why", None),
        ("enter", errno.ENOTDIR, NotFound, "cannot start sh: its working directory: why", None),
        ("enter", errno.EACCES, LocalError, "cannot start sh: its working directory: why", None),
        ("look", errno.ENOENT, LocalError, "cannot start sh: its view of the machine cannot be made: why", None),
        ("start", errno.ENOENT, NotFound, "cannot start sh: why", "is it installed and on PATH?"),
        ("start", errno.EACCES, LocalError, "cannot start sh: why", None),
    ],
)
def test_a_command_that_could_not_be_started_says_why(
    reaping: Make, doing: str, number: int, kind: type[LocalError], says: str, hint: str | None
) -> None:
    one = reaping("sh", sweep=lambda pid: pytest.fail("nothing was started"))
    one.report(reaper.FAILED, (doing, number, "why"))
    assert one.tree.ended
    with pytest.raises(LocalError) as error:
        one.tree.await_started()
    assert type(error.value) is kind and str(error.value).startswith(says) and error.value.hint == hint
    end = one.tree.conclude()
    assert (end.ended, end.killed, end.left, end.seconds, end.confirmed) == ([], [], [], 0.0, True)
    assert one.tree.report is None


def test_what_a_tree_is_asked_to_do_is_sent(reaping: Make) -> None:
    one = reaping("sh")
    one.tree.signal(signal.SIGINT)
    one.tree.signal(2, group=True)
    one.tree.signal(2, everyone=True)
    one.tree.signal(2, everyone=True, group=True)
    assert one.asked() == [(reaper.SIGNAL, (2, scope)) for scope in ("command", "group", "everyone", "everyone")]
    one.tree.ask_stop()
    one.tree.ask_stop(1)
    assert one.asked() == [(reaper.STOP, reaper.GRACE), (reaper.STOP, 1.0)]
    one.tree.leave()
    assert one.asked() == [(reaper.LEAVE, None)] and one.end.recv(1) == b""
    two = reaping("sh")
    two.end.send(frame(reaper.GONE, marshal.dumps(GONE)))
    assert two.tree.stop(0).killed == [(8, "deaf")] and two.tree.fileno() < 0
    with reaping("sh").tree as three:
        three.report = TreeEnd()
    assert three.fileno() < 0


def test_a_command_that_still_runs_or_whose_reaper_is_gone_has_no_exit_code(reaping: Make) -> None:
    one = reaping("sh")
    with pytest.raises(TimedOut, match="sh still runs after 0 s"):
        one.tree.wait(0)
    one.end.close()
    with pytest.raises(LocalError, match="cannot start sh: the keeper does not answer") as error:
        one.tree.await_started()
    assert error.value.hint == "try again"
    with pytest.raises(LocalError, match="sh was ended from outside: the process that watches it was killed"):
        one.tree.wait()
    assert one.tree.ended and one.tree.stop().confirmed, "there was no reaper, so nothing is below it"


def test_when_the_reaper_is_gone_its_keeper_sweeps_and_what_lives_on_is_left(reaping: Make) -> None:
    swept: list[int] = []

    def sweep(pid: int) -> bool:
        swept.append(pid)
        return len(swept) > 1

    for confirmed in (False, True):
        with subprocess.Popen(["sleep", "60"]) as child:
            one = reaping("sh", sweep=sweep)
            one.report(reaper.STARTED, {"pid": child.pid, "reaper": os.getpid()})
            assert child.pid in [each.pid for each in one.tree.processes()]
            one.end.close()
            end = one.tree.stop()
            assert swept[-1] == os.getpid() and end.confirmed is confirmed and (child.pid, "sleep") in end.left
            assert one.tree.conclude() is end and len(swept) == 1 + confirmed, "it is swept once"
            child.kill()
    alone = reaping("sh")
    alone.report(reaper.STARTED, {"pid": 1, "reaper": 2**22 + 1})
    alone.end.close()
    assert not alone.tree.stop().confirmed, "without a keeper no one knows"


def test_a_tree_that_is_forgotten_is_complained_about(reaping: Make) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with pytest.warns(ResourceWarning, match="<tree 0 'sh' running> was never stopped"):
            Tree(ours, ["sh"]).__del__()
        assert theirs.recv(1) == b"" and ours.fileno() < 0
    ours, theirs = socket.socketpair()
    with theirs, warnings.catch_warnings():
        warnings.simplefilter("error")
        ended = Tree(ours, ["sh"])
        ended.report = TreeEnd()
        ended.__del__()
        assert theirs.recv(1) == b""


@pytest.mark.parametrize("patient", [False, True])
def test_a_waiting_reaper_is_sent_the_command_its_terminal_and_what_comes_afterwards(patient: bool) -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    env = {f"V{number}": "x" * 1000 for number in range(300)}
    more = {"patient": True} if patient else {}
    waiting = WaitingReaper(77, ours)
    with theirs, ThreadPoolExecutor() as pool:
        starting = pool.submit(
            waiting.start, ["sh", "-c"], env=env, cwd="/tmp", terminal=read, inherited=[write], afterwards=["a"], **more
        )
        splitter, found, fds = FrameSplitter(), [], []
        while not found:
            data, came, _, _ = socket.recv_fds(theirs, 65536, 16)
            fds += came
            found = [item for item in splitter.feed(data) if isinstance(item, tuple)]
        tree = starting.result(60)
    (kind, body), message = found[0], marshal.loads(found[0][1])
    assert kind == reaper.START and body and (tree.reaper, tree.argv) == (77, ["sh", "-c"])
    assert [os.fstat(fd).st_ino for fd in fds] == [os.fstat(read).st_ino] * 2 and len(fds) == 2
    assert os.write(fds[1], b"x") == 1 and os.read(fds[0], 1) == b"x"
    assert message["argv"] == [b"sh", b"-c"] and message["cwd"] == b"/tmp" and len(message["env"]) == 300
    assert message["tty"] is True and message["afterwards"] == [b"a"] and message["patient"] is patient
    tree.close()
    for fd in (read, write, *fds):
        os.close(fd)


def test_a_request_has_the_surroundings_of_this_process_unless_others_are_given(
    monkeypatch: pytest.MonkeyPatch, state_home: Path
) -> None:
    monkeypatch.setenv("HERE", "too")
    made = start_request(["sh"], None, None, False)
    assert made["env"][b"HERE"] == b"too" and made["cwd"] == os.fsencode(os.getcwd()) and made["owner"] == os.getpid()
    assert made["registry"] == os.fsencode(state_home / "treadle" / "keepers") and os.path.isdir(made["registry"])
    usual = {"tty": False, "limits": [], "fds": 0, "patient": False, "detached": False, "afterwards": [], "view": None}
    assert {name: made[name] for name in usual} == usual
    given = start_request(["sh"], {}, "/", True)
    assert (given["env"], given["cwd"], given["tty"]) == ({}, b"/", True)
    with pytest.raises(ValueError, match="nothing to start: argv is empty"):
        start_request([], None, None, False)
    (state_home / "file").touch()
    monkeypatch.setenv("TREADLE_HOME", str(state_home / "file" / "treadle"))
    assert start_request(["sh"], None, None, False)["registry"] is None


def test_when_the_reaper_is_killed_its_processes_become_our_children(tmp_path: Path, mark: str) -> None:
    act = (
        "tree.await_started(); print(open('/proc/self/comm').read().strip(), os.getsid(tree.reaper) == tree.reaper);"
        "os.kill(tree.reaper, 9); print(os.waitpid(tree.reaper, 0)[1])\n"
        "try: tree.wait(20)\n"
        "except Exception as error: print(error)\n"
        "os.kill(tree.pid, 9); print(os.waitpid(tree.pid, 0)[1])"
    )
    done = keep(tmp_path, "trap '' HUP; exec sleep 60", act)
    why = "sh was ended from outside: the process that watches it was killed"
    assert done.stdout == f"treadle-termina True\n9\n{why}\n9\n", done.stderr
