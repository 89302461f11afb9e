"""The warm parent: what its copies have of who asks, and when it lets go."""

import gc
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from tests.io.process.test_reaper import in_copy
from tests.io.process.warmed import Warm
from tests.terminal.support import alive, until
from treadle.errors import LocalError
from treadle.io.process import launch, table, warm_parent
from treadle.io.process.warm import WATCHED


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


TIED = """
import os, sys, time
from treadle.io.process import warm
warm.PATIENCE = 50
arguments = [f"echo begun >> {sys.argv[1]}; kill -STOP $$"]
control, copy = warm._connect_to_copy("os", "system", arguments, [0, 1, 2], warm.TIED, start=["os"])
print(copy, flush=True)
if sys.argv[2:]:
    control.send(warm.START)
sys.stdin.readline()
os._exit(0)  # with what the copy has sent unread
"""


@pytest.mark.parametrize("passes_signals_on", [True, False])
def test_a_copy_that_is_tied_begins_when_signals_are_passed_on_and_ends_with_its_caller(
    warm: Warm, tmp_path: Path, passes_signals_on: bool
) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", TIED, str(begun), *(["start"] if passes_signals_on else [])]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdin is not None and caller.stdout is not None
        copy = int(caller.stdout.readline())
        if passes_signals_on:
            until(begun.exists)
        caller.stdin.close()
    until(lambda: not alive(copy))
    assert begun.exists() == passes_signals_on
    for process in table.processes():
        if process.state == "T" and str(begun) in " ".join(table.command_line(process.pid)):
            os.kill(process.pid, signal.SIGKILL)


def test_a_copy_sends_an_empty_line_while_its_caller_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor() as pool:
        ours.settimeout(0.01)
        received = pool.submit(warm_parent._receive_some, ours)
        assert theirs.recv(1) == b"\n"
        theirs.send(b"\x0f")
        assert received.result(60) == b"\x0f"
        theirs.close()
        assert warm_parent._receive_some(ours) == b""


# Its parts, in this process or a copy of it...


AROUND: dict[str, Any] = {"umask": 0o022, "env": {}, "cpus": [], "ignored": [], "blocked": [], "pid": 1}


def test_it_knows_the_files_that_it_has_loaded_and_when_they_were_changed() -> None:
    known = warm_parent._loaded()
    own = warm_parent.__file__
    assert known[own] == os.stat(own).st_mtime_ns and os.__file__ not in known
    assert warm_parent._loaded({own: 1, "/no/such/file": 2}) == {own: known[own], "/no/such/file": 0}


@pytest.mark.parametrize(
    ("value", "code", "words"), [(None, 0, ""), (3, 3, ""), ("why", 1, "why\n"), ((1, 2), 1, ""), (True, 1, "")]
)
def test_the_code_of_a_copy_is_that_of_sys_exit(
    value: Any, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert warm_parent._code(SystemExit(value)) == code and capsys.readouterr().err == words


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_could_not_be_written_is_the_code_of_a_copy(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def flush() -> None:
        raise OSError

    monkeypatch.setattr(sys, stream, SimpleNamespace(flush=flush, write=len))
    assert warm_parent._code(SystemExit(0)) == 120


def test_standard_streams_are_written_by_lines_where_someone_looks_and_never_fail_on_a_character() -> None:
    read, write = os.pipe()
    ends = os.openpty()
    made = [(read, "r"), (write, "w"), (ends[1], "w"), (2, "w")]
    found = [warm_parent.stream(fd, mode) for fd, mode in made]
    assert [(one.line_buffering, one.errors) for one in found] == [  # type: ignore[attr-defined]
        (False, "surrogateescape"),
        (False, "replace"),
        (True, "replace"),
        (True, "backslashreplace"),
    ]
    for one in found:
        one.close()
    for fd in (read, write, *ends):
        os.close(fd)  # still open: they are not the stream's


def test_who_is_confined_otherwise_is_not_like_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = "Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t0\nCapEff:\t0\nGroups:\t4\n"
    me = tmp_path / str(os.getpid())
    for place in (me, tmp_path / "self"):
        for name in ("ns", "attr"):
            (place / name).mkdir(parents=True)
        (place / "status").write_text(bounds)
        (place / "attr" / "current").write_text("label")
        for space in ("mnt", "net", "pid", "user"):
            (place / "ns" / space).symlink_to(f"{space}:[1]")
    monkeypatch.setattr(warm_parent, "PROC", str(tmp_path))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # Who asks is always this process: a child of its parent like itself, but not like a child of its own.
        assert warm_parent._is_like_us(ours) and in_copy(lambda: warm_parent._is_like_us(ours))
        for space in ("mnt", "net", "pid", "user"):
            (me / "ns" / space).unlink()
            (me / "ns" / space).symlink_to(f"{space}:[2]")
            assert not in_copy(lambda: warm_parent._is_like_us(ours))
            assert warm_parent._is_like_us(ours), "it has the same parent"
            (me / "ns" / space).unlink()
            (me / "ns" / space).symlink_to(f"{space}:[1]")
        for line in ("NoNewPrivs", "Seccomp", "CapEff", "Groups"):
            (me / "status").write_text(bounds.replace(f"{line}:\t", f"{line}:\t1"))
            assert not warm_parent._is_like_us(ours)
        (me / "status").write_text(bounds.replace("Name:\tx", "Name:\ty"))
        assert warm_parent._is_like_us(ours)
        (me / "attr" / "current").unlink()
        assert not warm_parent._is_like_us(ours)
        (tmp_path / "self" / "attr" / "current").unlink()
        assert warm_parent._is_like_us(ours)
        for place in (me, tmp_path / "self"):
            (place / "status").unlink()
        assert not warm_parent._is_like_us(ours), "nothing is known"
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert warm_parent._is_like_us(ours)


def test_who_has_ended_is_not_like_us(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as asking:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        assert in_copy(lambda: asking.connect(str(tmp_path / "socket"))) is None
        with listening.accept()[0] as control:
            assert not warm_parent._is_like_us(control)


def test_a_copy_takes_over_what_its_caller_has_around_it() -> None:
    def settled(**more: Any) -> list[object]:
        for number in (signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        warm_parent._settle({**AROUND, "umask": 0o027, "env": {"A": "b", "TZ": "XXX+5"}, **more})
        names = (signal.SIGINT, signal.SIGUSR1, signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP)
        usual = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN, signal.SIG_DFL, signal.SIG_IGN)
        handled = [signal.getsignal(number) == wanted for number, wanted in zip(names, usual, strict=True)]
        blocked = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        return [os.umask(0), dict(os.environ), time.timezone, len(os.sched_getaffinity(0)), all(handled), *blocked]

    cpus = sorted(os.sched_getaffinity(0))
    first = [0o027, {"A": "b", "TZ": "XXX+5"}, 18000]
    assert in_copy(lambda: settled(ignored=[1], blocked=[12])) == [*first, len(cpus), True, 12]
    assert in_copy(lambda: settled(ignored=[1], cpus=cpus[:1])) == [*first, 1, True]
    assert in_copy(lambda: settled()[4]) is False, "SIGHUP is not ignored"


def request(*work: object, bond: int = warm_parent.TIED, **more: Any) -> bytes:
    data = marshal.dumps((*work, {**AROUND, "env": dict(os.environ), **more}, ["argv"], bond))
    return len(data).to_bytes(4, "big") + data


def test_a_request_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    data = request("m", "f", [1])

    def received(*pieces: bytes, fds: int = 5, bond: int = warm_parent.TIED) -> object:
        ours, theirs = socket.socketpair()
        place = os.open(tmp_path, os.O_RDONLY)
        null = os.open(os.devnull, os.O_RDWR)
        socket.send_fds(theirs, [pieces[0]], [place, null, null, null, null][:fds])
        for piece in pieces[1:]:
            theirs.send(piece)
        theirs.close()
        *work, arguments, tie, caller = warm_parent._receive(ours)
        further = arguments[1:]
        same = [os.path.samestat(os.fstat(fd), os.fstat(null)) for fd in (0, 1, 2, *further)]
        return [
            *work,
            arguments[0],
            tie,
            caller,
            os.getcwd(),
            all(same),
            len(same),
            sys.argv,
            sys.stdout.line_buffering,
        ]

    whole = ["m", "f", 1, 2, 1, str(tmp_path), True, 4, ["argv"], False]
    assert in_copy(lambda: received(data)) == whole == in_copy(lambda: received(data[:9], data[9:20], data[20:]))
    assert in_copy(lambda: received(data, fds=4)) == [*whole[:7], 3, *whole[8:]]
    assert in_copy(lambda: received(data, fds=3)) == 1 == in_copy(lambda: received(data[:9], data[9:20]))
    assert in_copy(lambda: received((warm_parent.REQUEST_MAX + 1).to_bytes(4, "big"))) == 1
    alone = request("m", "f", [1], bond=warm_parent.ALONE)

    def keeps_streams() -> bool:
        before = sys.stdin, sys.stdout, sys.stderr
        received(alone)
        return before == (sys.stdin, sys.stdout, sys.stderr)

    assert in_copy(keeps_streams) is True


def copied(module: str, function: str, *arguments: object, bond: int = WATCHED) -> tuple[bytes, bytes, int]:
    """What a copy answers, what it prints, and its exit code."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            os.close(read)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            parent = SimpleNamespace(listener=socket.socket(), wake=os.dup(0), files={}, path="/socket")
            warm_parent._run_copy(theirs, parent)  # type: ignore[arg-type]
        finally:
            os._exit(99)
    theirs.close()
    with ours:
        assert ours.recv(5) == warm_parent.READY + pid.to_bytes(4, "big")
        place, null = os.open("/", os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(ours, [request(module, function, list(arguments), bond=bond)], [place, null, write, write])
        for fd in (place, null, write):
            os.close(fd)
        answer = b""
        while more := ours.recv(16):
            answer += more
            if more == warm_parent.GOING:
                ours.send(b"\0")
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    return answer, said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_copy_calls_the_function_and_reports_its_code() -> None:
    assert copied("operator", "add", 3, 4) == (b"7\n", b"", 7)
    assert copied("operator", "add", 3, 4, bond=warm_parent.TIED) == (b"g7\n", b"", 7)
    assert copied("operator", "add", 3, 4, bond=warm_parent.ALONE) == (b"", b"", 7)
    assert copied("builtins", "eval", "print('said') or 0x102") == (b"2\n", b"said\n", 2)
    assert copied("sys", "exit", "why") == (b"1\n", b"why\n", 1)
    tied = "__import__('treadle.io.process.lifetime', fromlist=['x'])"
    assert copied("builtins", "eval", f"print({tied}.warm_parent()) or 0", bond=warm_parent.TIED)[1] == b"/socket\n"
    answer, said, code = copied("operator", "truediv", 1, 0)
    assert (answer, code) == (b"1\n", 1) and b"ZeroDivisionError" in said


def test_one_whose_caller_is_gone_before_it_began_does_nothing() -> None:
    def follow() -> None:
        ours, theirs = socket.socketpair()
        theirs.close()
        warm_parent._follow_caller(ours)

    assert in_copy(follow) == 1


def test_it_leaves_its_place_but_not_that_of_another(tmp_path: Path) -> None:
    path = str(tmp_path / "s")

    def made(act: Callable[[warm_parent.WarmParent], object], seconds: float = 60.0) -> Any:
        def inside() -> object:
            listener = warm_parent.sockets.listen(path)
            parent = warm_parent.WarmParent(path, listener, seconds)
            return [act(parent), listener.fileno()]

        return in_copy(inside)

    def replaced(parent: warm_parent.WarmParent) -> list[bool]:
        before = parent.in_place()
        os.rename(path, path + ".old")
        gone = parent.in_place()
        Path(path).touch()
        other = parent.in_place()
        parent.serve()
        os.unlink(path)
        return [before, gone, other]

    def told(parent: warm_parent.WarmParent) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        parent.serve()
        return os.path.exists(path)

    assert made(replaced) == [[True, False, False], -1]
    assert made(told) == [False, -1] and made(lambda parent: parent.serve() or os.path.exists(path), 0.0) == [False, -1]

    def collects(parent: warm_parent.WarmParent) -> bool:
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        parent.seconds = 0.001
        parent.serve()
        warm_parent._collect()
        return os.path.exists(f"/proc/{pid}")

    assert made(collects) == [False, -1]


@pytest.mark.parametrize("is_first", [True, False])
def test_it_loads_what_it_is_told_detached_and_says_when_it_listens(tmp_path: Path, is_first: bool) -> None:
    path = str(tmp_path / "s")
    told, tell = os.pipe()
    ready, report = os.pipe()

    def note(*words: object) -> None:
        os.write(tell, repr(words).encode() + b"\n")

    def listen(where: str) -> socket.socket:
        frozen = gc.get_freeze_count() > 0
        note(where == path, os.getcwd(), gc.isenabled(), frozen, os.get_inheritable(3), os.getppid() != starter)
        if not is_first:
            raise LocalError("another one answers")
        return usual(where)

    def begin() -> None:
        nonlocal usual, starter
        os.dup2(report, 3)
        os.close(report)
        gc.unfreeze()
        starter = os.getppid()
        launch.close_all_but = lambda kept: note(kept)
        sys.modules["noting"] = SimpleNamespace(note=lambda: note("called in", os.getcwd()))  # type: ignore[assignment]
        usual, warm_parent.sockets.listen = warm_parent.sockets.listen, listen
        sys.argv = ["-c", "library", path, "0", "json", "noting:note"]
        warm_parent.main()

    usual: Any = None
    starter = 0
    assert in_copy(begin) == 0
    for end in (tell, report):
        os.close(end)
    with os.fdopen(told, "rb") as notes, os.fdopen(ready, "rb") as said:
        assert said.read() == b"r"
        assert notes.read().decode().splitlines() == [
            "([0, 1, 2, 3],)",
            repr(("called in", str(tmp_path))),
            repr((True, "/", False, True, False, True)),
        ]
    assert not os.path.exists(path)
